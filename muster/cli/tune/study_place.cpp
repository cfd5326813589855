// From words to a folder and from a file to a plan.
// Everything that can be wrong with a study is found here, before its folder is made.
#include "muster/cli/tune/study_place.h"

#include <algorithm>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/text.h"
#include "muster/base/toml_text.h"
#include "muster/cli/tune/job_subject.h"
#include "muster/control/write_ahead.h"
#include "muster/trainer/job.h"
#include "muster/tuning/study_log.h"

namespace muster::cli {
namespace {

constexpr const char* kStudies = "studies";

std::vector<tuning::Known> known_of(const tuning::StudyFile& file, const tuning::StudyPlan& plan) {
  std::vector<tuning::Known> known;
  for (const std::string& earlier : file.warm_start) {
    const tuning::StudyLog log(control::make_write_ahead_store(store_of(find_study(earlier)), {.create = false}));
    if (log.plan().objectives != plan.objectives)
      throw Error(ErrorKind::kMismatch, "has other objectives: its results cannot be compared", earlier,
                  "Remove it from study.warm_start.");
    for (const std::uint64_t number : log.history().ended()) {
      const tuning::Trial& trial = log.history().at(number);
      if (trial.state == tuning::State::kFinished) known.push_back({trial.values, trial.result});
    }
  }
  return known;
}

// What is known of earlier studies was read when this one was begun, and stays what it was: they may have grown since,
// or be gone. Which ones they are must not change.
void require_same_warm_start(const tuning::StudyFile& file, const std::filesystem::path& folder) {
  const std::filesystem::path begun_with = folder / "study.toml";
  std::error_code code;
  if (!std::filesystem::is_regular_file(begun_with, code)) return;
  if (tuning::read_study_file(begun_with).warm_start == file.warm_start) return;
  throw Error(ErrorKind::kMismatch,
              "\"warm_start\" is not what the study was begun with; it is read once, at the start", file.path,
              "Change it back, or begin a study of another name.");
}

// What a job says of its trials.
void add_job_part(const tuning::StudyFile& file, tuning::StudyPlan& plan) {
  const std::filesystem::path job = job_of(file);
  check_space(file, job);
  check_objectives(file, job);
  const trainer::ResolvedJob resolved = trainer::load_job(job, assignments_of(largest_values(file.space)));
  plan.max_resource = static_cast<std::uint64_t>(resolved.job.epochs);
  const std::string text = read_text(job, kLargestToml);
  plan.subject = {{"job", job.string()}, {"sha256", sha256(std::as_bytes(std::span(text)))}};
  const auto scheduler = plan.scheduler.make(plan.schedule_problem());
  if (scheduler->changes_values()) check_changes(file, job);
  if (!resolved.job.steps) return;
  if (scheduler->next_decision(tuning::Trial{}) < plan.max_resource)
    throw resolved.invalid("job.steps", fmt::format("the scheduler {} counts epochs", plan.scheduler.name()),
                           "Give the job job.epochs instead.");
}

}  // namespace

std::filesystem::path store_of(const std::filesystem::path& study) {
  return study / "study.db";
}

bool is_study(const std::filesystem::path& folder) {
  std::error_code code;
  return std::filesystem::is_regular_file(store_of(folder), code);
}

std::filesystem::path folder_of(const tuning::StudyFile& file) {
  return std::filesystem::absolute(std::filesystem::path(file.folder) / file.name).lexically_normal();
}

std::filesystem::path job_of(const tuning::StudyFile& file) {
  return std::filesystem::absolute(std::filesystem::path(file.path).parent_path() / file.job).lexically_normal();
}

std::filesystem::path find_study(const std::string& what) {
  std::error_code code;
  if (is_study(what)) return std::filesystem::absolute(what).lexically_normal();
  if (is_study(std::filesystem::path(kStudies) / what))
    return std::filesystem::absolute(std::filesystem::path(kStudies) / what).lexically_normal();
  if (std::filesystem::is_regular_file(what, code)) {
    const std::filesystem::path folder = folder_of(tuning::read_study_file(what));
    if (is_study(folder)) return folder;
    throw Error(ErrorKind::kNotFound, "this study was not begun yet", what, fmt::format("muster tune {}", what));
  }
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kStudies, code)) {
    if (is_study(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  throw Error(
      ErrorKind::kNotFound, fmt::format("there is no study \"{}\"", excerpt(what, 100)), {},
      names.empty() ? "Begin one: muster tune STUDY.toml" : fmt::format("Studies here: {}.", join_words(names)));
}

tuning::StudyPlan plan_of(const tuning::StudyFile& file) {
  tuning::StudyPlan plan = file.plan();
  if (!file.job.empty()) {
    add_job_part(file, plan);
  } else {
    plan.max_resource = static_cast<std::uint64_t>(file.trials.epochs);
    if (!file.program.empty()) plan.subject = {{"program", file.program}};
  }
  const std::filesystem::path folder = folder_of(file);
  if (is_study(folder))
    require_same_warm_start(file, folder);
  else
    plan.known = known_of(file, plan);
  // What they cannot work with is said before anything is written.
  file.check_choices(plan);
  return plan;
}

void make_study(const std::filesystem::path& folder, const tuning::StudyFile& file) {
  make_folder(folder / "trials");
  write_atomically(folder / "study.toml", read_text(file.path, kLargestToml));
}

}  // namespace muster::cli
