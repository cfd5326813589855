// From what a person typed to one folder: whole names before beginnings, the newest before older ones. An answer that
// is not certain lists what was possible.
#include "muster/cli/runs.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/control/access_token.h"
#include "muster/control/commands_folder.h"
#include "muster/control/job_store.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/run_failure.h"

namespace muster::cli {
namespace {

constexpr std::size_t kMostNamed = 5;

bool is_run(const std::filesystem::path& path) {
  std::error_code code;
  // A program that is not ours has no job file.
  return std::filesystem::is_regular_file(path / "job.toml", code) || control::has_record(path) ||
         control::has_record(control::host_folder(path));
}

// "a, b and 3 more", newest first.
std::string some_of(const std::vector<std::filesystem::path>& runs) {
  std::vector<std::string> names;
  for (const std::filesystem::path& run : runs) {
    if (names.size() == kMostNamed) break;
    names.push_back(run.filename().string());
  }
  if (runs.size() > kMostNamed) names.push_back(fmt::format("{} more", runs.size() - kMostNamed));
  return join_words(names);
}

// NAME-20260101-120000, or the same with -002 for a second one in that second.
bool is_run_of(const std::string& job, const std::string& folder) {
  if (job.empty() || !folder.starts_with(job + "-")) return false;
  const std::string stamp = folder.substr(job.size() + 1);
  return (stamp.size() == 15 || stamp.size() == 19) && stamp[8] == '-' &&
         stamp.find_first_not_of("0123456789-") == std::string::npos;
}

bool has_checkpoint(const std::filesystem::path& run) {
  // A federated run has its model at its end, and no checkpoints.
  return std::filesystem::exists(run / model::kModelFile) ||
         !model::CheckpointStore(run / "checkpoints").list().empty();
}

// The newest run of the job that can be used; the newest if none can.
std::optional<FoundModel> newest_run_of(const std::string& job, const std::filesystem::path& runs) {
  std::optional<std::filesystem::path> newest;
  for (const std::filesystem::path& run : list_runs(runs)) {
    if (!is_run_of(job, run.filename().string())) continue;
    if (!has_checkpoint(run)) {
      if (!newest) newest = run;
      continue;
    }
    if (!newest) return FoundModel{run};
    const std::string failure = trainer::read_failure(*newest);
    return FoundModel{run, fmt::format("{} is newer and has no checkpoint{}: {} is taken", newest->string(),
                                       failure.empty() ? "" : fmt::format(" (it {})", excerpt(failure, 200)),
                                       run.filename().string())};
  }
  if (!newest) return std::nullopt;
  return FoundModel{*newest};
}

// Those of `all` that `job` can mean, in their order.
std::vector<std::filesystem::path> matches_of(const std::string& job, const std::vector<std::filesystem::path>& all) {
  std::vector<std::filesystem::path> matches;
  for (const std::filesystem::path& run : all) {
    if (run.filename() == job) return {run};
    if (!job.empty() && run.filename().string().starts_with(job)) matches.push_back(run);
  }
  // A whole name means that job, whatever others begin with it.
  const auto is_whole = [&](const std::filesystem::path& run) { return is_run_of(job, run.filename().string()); };
  if (std::any_of(matches.begin(), matches.end(), is_whole)) std::erase_if(matches, std::not_fn(is_whole));
  return matches;
}

// A record that cannot be read says nothing.
bool may_be_alive(const std::filesystem::path& run) {
  try {
    return is_alive(run);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::filesystem::path> list_runs(const std::filesystem::path& runs) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> found;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(runs, code)) {
    if (!is_run(entry.path())) continue;
    // The job's file is written when the run begins, and never again; where there is none the token is.
    auto began = std::filesystem::last_write_time(entry.path() / "job.toml", code);
    for (const auto& folder : {entry.path(), control::host_folder(entry.path())})
      if (code) began = std::filesystem::last_write_time(control::token_file(folder), code);
    found.emplace_back(began, entry.path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  std::vector<std::filesystem::path> paths;
  for (auto& [time, path] : found)
    paths.push_back(std::move(path));
  return paths;
}

bool is_alive(const control::JobRecord& record) {
  const auto lives = [](const ProcessId& process) {
    return process.pid != 0 && state_of(process) != ProcessState::kGone;
  };
  const auto lease = record.lease();
  if (lease && lives(lease->holder)) return true;
  const auto members = record.membership().members;
  return std::any_of(members.begin(), members.end(),
                     [&](const control::Worker& member) { return lives(member.process); });
}

bool is_alive(const std::filesystem::path& run) {
  const std::filesystem::path folder = control::commands_folder(run);
  const auto noted = control::noted_leader(folder);
  if (noted && state_of(noted->lease.holder) != ProcessState::kGone) return true;
  return control::has_record(folder) && is_alive(control::JobRecord(control::open_record_store(folder)));
}

std::filesystem::path find_run(const std::string& job, const std::filesystem::path& runs) {
  if (is_run(job)) return std::filesystem::path(job);
  const std::vector<std::filesystem::path> all = list_runs(runs);
  const std::vector<std::filesystem::path> matches = matches_of(job, all);
  if (matches.size() == 1) return matches.front();
  if (matches.size() > 1) {
    std::vector<std::filesystem::path> alive;
    std::copy_if(matches.begin(), matches.end(), std::back_inserter(alive),
                 [](const std::filesystem::path& run) { return is_alive(run); });
    if (alive.size() == 1) return alive.front();
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("\"{}\" could be {}", excerpt(job, 100), some_of(alive.empty() ? matches : alive)), {},
                "Give more of the name.");
  }
  throw Error(ErrorKind::kNotFound, fmt::format("there is no run \"{}\"", excerpt(job, 100)), runs.string(),
              all.empty() ? "Name a run's folder, or the folder of the runs with --runs."
                          : fmt::format("Runs there: {}.", some_of(all)));
}

namespace {

// For whoever meant a job that runs.
std::string names_of_running(const std::filesystem::path& runs) {
  std::vector<std::filesystem::path> running = list_runs(runs);
  std::erase_if(running, [](const std::filesystem::path& run) { return !may_be_alive(run); });
  if (running.empty())
    return fmt::format("No job runs under {}; muster status --all shows those that are over.", runs.string());
  return fmt::format("Running under {}: {}.", runs.string(), some_of(running));
}

}  // namespace

std::filesystem::path find_commanded(const std::string& job, const std::filesystem::path& runs) {
  if (is_run(job)) return std::filesystem::path(job);
  const std::vector<std::filesystem::path> matches = matches_of(job, list_runs(runs));
  if (matches.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("nothing runs under the name \"{}\"", excerpt(job, 100)), {},
                names_of_running(runs));
  const bool any = std::any_of(matches.begin(), matches.end(), may_be_alive);
  return any ? find_run(job, runs) : matches.front();
}

void require_running(const std::filesystem::path& run, const std::filesystem::path& runs) {
  if (is_alive(run)) return;
  throw Error(ErrorKind::kNotFound, "does not run any more", run.string(), names_of_running(runs));
}

std::filesystem::path find_newest_run(const std::string& job, const std::filesystem::path& runs) {
  std::vector<std::filesystem::path> own = list_runs(runs);
  std::erase_if(own, [&](const std::filesystem::path& run) { return !is_run_of(job, run.filename().string()); });
  if (is_run(job) || own.empty()) return find_run(job, runs);
  const auto alive =
      std::find_if(own.begin(), own.end(), [](const std::filesystem::path& run) { return is_alive(run); });
  return alive != own.end() ? *alive : own.front();
}

FoundModel find_model(const std::string& what, const std::filesystem::path& runs) {
  std::error_code code;
  const std::filesystem::path study = std::filesystem::path(what).parent_path();
  if (std::filesystem::path(what).filename() == "best" && !std::filesystem::exists(what, code) &&
      std::filesystem::is_regular_file(study / "study.db", code))
    throw Error(ErrorKind::kNotFound, "the study has no best trial: it has two objectives, or none has ended yet", what,
                fmt::format("muster tune show {} has the trials, the front first; name one: {}/trials/0000.",
                            study.string(), study.string()));
  if (is_run(what) || std::filesystem::is_regular_file(what, code)) return {what};
  if (auto run = newest_run_of(what, runs)) return *run;
  return {std::filesystem::exists(what, code) ? std::filesystem::path(what) : find_run(what, runs)};
}

}  // namespace muster::cli
