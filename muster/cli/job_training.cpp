// Answers from the job file as it was resolved when the job began, and by the files of the run's folder (run_changes.h,
// run_failure.h).
#include "muster/cli/job_training.h"

#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/job_changes.h"
#include "muster/trainer/run_changes.h"
#include "muster/trainer/run_failure.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

std::vector<control::Change> as_recorded(const std::vector<trainer::JobChange>& changes) {
  std::vector<control::Change> recorded;
  for (const trainer::JobChange& change : changes)
    recorded.push_back({change.number, change.assignment, change.step > 0 ? std::optional(change.step) : std::nullopt});
  return recorded;
}

}  // namespace

std::string JobTraining::describe_lane(std::uint64_t step, int lane, const control::LeaderNote&) const {
  try {
    return fmt::format("samples {}",
                       fmt::join(trainer::samples_of(resolved_, step, static_cast<std::size_t>(lane)), ", "));
  } catch (const Error&) {
    return {};  // the data need not be on this host; what the lane has done is worse than that
  }
}

void JobTraining::check_change(const std::vector<std::string>& earlier, const std::string& assignment) const {
  trainer::check_change(resolved_.text, earlier, assignment);
}

void JobTraining::ask_for(const std::filesystem::path& run, const std::vector<control::Change>& changes) const {
  std::vector<trainer::JobChange> asked;
  for (const control::Change& change : changes)
    asked.push_back({change.number, change.assignment});
  trainer::write_asked_changes(run, asked);
}

std::vector<control::Change> JobTraining::asked(const std::filesystem::path& run) const {
  return as_recorded(trainer::RunChanges(run).asked());
}

std::vector<control::Change> JobTraining::applied(const std::filesystem::path& run) const {
  return as_recorded(trainer::RunChanges(run).known());
}

std::filesystem::path JobTraining::local_run(const std::filesystem::path& run) const {
  return trainer::RunFolder::of_other_host(run, resolved_.job.runs, resolved_.text).path();
}

bool JobTraining::has_results(const std::filesystem::path& run) const {
  return !trainer::RunFolder::is_unused(run);
}

void JobTraining::write_failure(const std::filesystem::path& run, std::uint64_t step, const std::string& reason) const {
  trainer::write_failure(run, step, reason);
}

}  // namespace muster::cli
