// What a trial is: a job file with other values for some keys, or a program of a user's own. It says how a trial is
// started as a command of this program, and what its figures mean; who starts it is process_trials.h.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/tuning/study_file.h"
#include "muster/tuning/study_plan.h"
#include "muster/tuning/trial.h"

namespace muster::cli {

// What a row of a trial's figures says.
struct RowMeaning {
  std::optional<tuning::Report> report{};
  std::optional<std::uint64_t> paused_at{};  // it has kept its state there and ends
  bool finished = false;
  bool lost_step = false;  // a step without a finite loss
  bool good_step = false;
  std::string hopeless{};  // why no row of this trial will ever tell what it is judged by
  // Objectives that a row of figures did not tell, and those that it did.
  std::vector<std::string> lacks{};
  std::vector<std::string> tells{};
};

class TrialSubject {
 public:
  virtual ~TrialSubject() = default;

  // Whether a trial can be paused and go on later; what schedulers other than "none" need.
  virtual bool can_pause() const = 0;
  // Makes the folder of the trial, if it is not there, and gives the words of the command that runs it until `until`
  // (0: to its end). Throws kInvalidInput for values that make no trial.
  virtual std::vector<std::string> prepare(const tuning::Trial& trial, const std::vector<tuning::Trial>& ancestors,
                                           std::uint64_t until) = 0;
  // Where its rows appear.
  virtual std::filesystem::path rows_file(std::uint64_t number) const = 0;
  virtual RowMeaning meaning(const Json& row) const = 0;
  // Whether a process that ended well without saying so has come to its end, not to a pause.
  virtual bool ends_silently() const = 0;
  // Why it failed, if it has left that; empty: it has not.
  virtual std::string failure(std::uint64_t number) const = 0;
  // What is kept only to go on is not needed any more.
  virtual void drop_state(std::uint64_t number) const = 0;

  std::filesystem::path folder(std::uint64_t number) const;
  explicit TrialSubject(std::filesystem::path study) : study_(std::move(study)) {}

 protected:
  const std::filesystem::path study_;
};

// Objectives that a row does not have.
std::vector<std::string> lacking_in(const Json& row, const std::vector<tuning::Objective>& objectives);
// Objective values of a row, if it has all of them; one that is null is not a number.
std::optional<std::vector<double>> objectives_in(const Json& row, const std::vector<tuning::Objective>& objectives);

}  // namespace muster::cli
