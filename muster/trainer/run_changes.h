// Changes of a job that runs (`muster set`), as its workers see them: what was asked for, and from which step on each
// change counts. Two files of JSON lines in the run's folder:
//   asked.jsonl    {"number": 1, "assignment": "optimizer.lr=0.01"}              by the coordinator
//   changes.jsonl  {"number": 1, "assignment": "optimizer.lr=0.01", "step": 13}  by the leading worker
// The step is the first one that is computed with the change, counted from 1. Every worker tells in its lanes how many
// changes it knows of, so all learn in the same step's outcome which count from the next one on. The leader writes that
// down, durably, before it begins that step: no step can be committed without it. So a run that is resumed from before
// the step makes the same change at the same step. No torch here. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::trainer {

struct JobChange {
  std::uint64_t number = 0;  // from 1
  std::string assignment;    // "optimizer.lr=0.01"
  std::uint64_t step = 0;    // 0: not known yet
};

// For the coordinator. Throws kIo, kResource.
void write_asked_changes(const std::filesystem::path& run, std::span<const JobChange> changes);

class RunChanges {
 public:
  // Reads what stands in the run's folder. Throws kDamaged, kIo.
  explicit RunChanges(const std::filesystem::path& run);

  // The highest number this worker may propose in a step, 0: none. Changes whose step is known come first. Reads the
  // file only if it has grown.
  std::uint64_t proposal(std::uint64_t made);
  // The changes above number `made` that count from `step` on, in order: those whose step is known and has come; then,
  // if no other step is known, those up to `agreed`, which get this step. Throws kDamaged if one cannot be found.
  std::vector<JobChange> due(std::uint64_t made, std::uint64_t agreed, std::uint64_t step);
  // For the leader, after due() gave something: durable when it returns.
  void write() const;

  // Every change whose step is known.
  const std::vector<JobChange>& known() const { return known_; }

 private:
  void read_asked();
  bool later_ones(std::uint64_t made) const { return !known_.empty() && known_.back().number > made; }

  const std::filesystem::path run_;
  std::vector<JobChange> asked_;
  std::vector<JobChange> known_;               // by number
  std::optional<std::uintmax_t> asked_bytes_;  // of the file when it was read last: it only grows
};

// `assignments` with `assignment` in place of an earlier one of the same key.
void replace_assignment(std::vector<std::string>& assignments, const std::string& assignment);

}  // namespace muster::trainer
