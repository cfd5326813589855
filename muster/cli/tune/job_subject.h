// Trials of a job file. The run folder of a trial is trials/NUMBER of the study's, and a trial is always a run that is
// resumed: from its first step, from its own checkpoint, or from that of the trial it was copied from.
//
// A copy (population-based training) begins with its parent's checkpoint and the changes of values as `muster set`
// makes them, from the next step on: so every step of the lineage is computed with the values it had.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/cli/tune/trial_subject.h"
#include "muster/trainer/job.h"

namespace muster::cli {

// For a scheduler that changes values on the way. Throws Error{kInvalidInput}, with the place in the study file, for a
// key that `muster set` could not change.
void check_changes(const tuning::StudyFile& study, const std::filesystem::path& job);

class JobSubject final : public TrialSubject {
 public:
  // `settings`: assignments that every trial has, of those who start it.
  JobSubject(std::filesystem::path study, std::filesystem::path job, std::string name,
             std::vector<tuning::Objective> objectives, std::vector<std::string> settings);

  bool can_pause() const override { return true; }
  std::vector<std::string> prepare(const tuning::Trial& trial, const std::vector<tuning::Trial>& ancestors,
                                   std::uint64_t until) override;
  std::filesystem::path rows_file(std::uint64_t number) const override { return folder(number) / "metrics.jsonl"; }
  RowMeaning meaning(const Json& row) const override;
  bool ends_silently() const override { return false; }
  std::string failure(std::uint64_t number) const override;
  void drop_state(std::uint64_t number) const override;

 private:
  std::vector<std::string> assignments(std::uint64_t number, const tuning::Assignment& values) const;
  void make_folder(const tuning::Trial& trial, const trainer::ResolvedJob& resolved) const;
  void copy_state(const tuning::Trial& trial, const tuning::Trial& parent) const;

  const std::filesystem::path job_;
  const std::string name_;
  const std::vector<tuning::Objective> objectives_;
  const std::vector<std::string> settings_;
};

// Throws Error{kInvalidInput} with the study file's line for a key of [space] that is no key of a job, or whose values
// the job file would not take; and for a job that cannot be trained with some values.
void check_space(const tuning::StudyFile& study, const std::filesystem::path& job);

// Throws likewise for objectives that no validation of the job will tell, and for a job that muster train does not
// train by epochs.
void check_objectives(const tuning::StudyFile& study, const std::filesystem::path& job);

// The values that take most memory: every number at its largest.
tuning::Assignment largest_values(const tuning::Space& space);
std::vector<std::string> assignments_of(const tuning::Assignment& values);

}  // namespace muster::cli
