// One look at all trials: rows first, then ends, so that what a trial told before it ended is told before its end.
// What it took is told with its end: the time since its start, and the processor time of all that was waited for.
#include "muster/cli/tune/process_trials.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"

namespace muster::cli {
namespace {

using tuning::Trial;
using tuning::TrialNews;

// So many steps in a row without a finite loss will not get better.
constexpr std::uint64_t kHopelessSteps = 10;
constexpr std::chrono::milliseconds kPoll{20};
constexpr std::size_t kLastWords = 4096;

// Of all processes that this one has started and that have ended.
double children_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What the command prints goes into the trial's folder; nobody types into it.
void take_output(const std::string& file) {
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) return;
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
}

}  // namespace

ProcessTrials::ProcessTrials(TrialSubject& subject, const tuning::StudyLog& log, RunCommand run, bool keep_all,
                             const std::filesystem::path& study, std::string objectives_at)
    : subject_(subject),
      log_(log),
      run_(std::move(run)),
      keep_all_(keep_all),
      copies_(log.plan().scheduler.make(log.plan().schedule_problem())->changes_values()),
      study_(study),
      objectives_at_(std::move(objectives_at)) {
}

// A figure that the first trial does not tell while none has told any yet is a mistake of the study, not of the trial.
void ProcessTrials::require_objectives(const RowMeaning& meaning) const {
  const auto& trials = log_.history().trials();
  const bool some_tell = std::ranges::any_of(trials, [](const Trial& trial) { return !trial.reports.empty(); });
  // Where the task is searched each trial tells the figures of its own.
  if (meaning.hopeless.empty() || meaning.lacks.empty() || some_tell || log_.plan().space.find("loss.task") != nullptr)
    return;
  throw Error(
      ErrorKind::kInvalidInput,
      fmt::format("study.objective: validations of the job do not tell \"{}\"{}", join_words(meaning.lacks),
                  did_you_mean(meaning.lacks.front(), meaning.tells)),
      objectives_at_,
      fmt::format("They tell {}. Correct it, remove {} and begin anew.", join_words(meaning.tells), study_.string()));
}

// From the start that a killed tuner wrote down to the trial's last row. What its processes took, nobody has seen.
double ProcessTrials::unheard_seconds(std::uint64_t number) {
  const std::int64_t begun = log_.notes(number).unheard_since;
  struct stat file {};
  if (std::exchange(counted_[number], begun) == begun || begun == 0 ||
      ::stat(subject_.rows_file(number).c_str(), &file) != 0)
    return 0;
  return std::max(0.0,
                  static_cast<double>(file.st_mtim.tv_sec - begun) + 1e-9 * static_cast<double>(file.st_mtim.tv_nsec));
}

std::vector<Trial> ProcessTrials::ancestors_of(const Trial& trial) const {
  std::vector<Trial> ancestors;
  for (const Trial* at = &trial; at->lineage;) {
    at = &log_.history().at(at->lineage->parent);
    ancestors.push_back(*at);
  }
  return ancestors;
}

void ProcessTrials::start(const Trial& trial, std::uint64_t until) {
  std::vector<std::string> words;
  try {
    words = subject_.prepare(trial, ancestors_of(trial), until);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kResource) throw;
    TrialNews news;
    news.number = trial.number;
    news.what = TrialNews::What::kFailed;
    news.reason = error.what();
    at_once_.push_back(std::move(news));
    return;
  }
  Running running{until, trial.resource(), RowReader(subject_.rows_file(trial.number))};
  running.begun = system_clock().now();
  running.earlier_seconds = unheard_seconds(trial.number);
  // Rows of its earlier life: they may tell that it is done.
  look_at_rows(trial.number, running, at_once_);
  running.has_rows = false;
  running.lost_steps = 0;
  const bool done =
      running.finished || !running.hopeless.empty() || (until > 0 && running.paused_at == until && running.held);
  if (!done) {
    running.paused_at.reset();
    start_process(trial.number, running, words);
  }
  running_.insert_or_assign(trial.number, std::move(running));
}

void ProcessTrials::start_process(std::uint64_t number, Running& running, const std::vector<std::string>& words) {
  launch::Command command;
  command.own_group = true;
  command.copy = [this, words, file = (subject_.folder(number) / "output.txt").string()] {
    take_output(file);
    return run_(words);
  };
  running.process = std::make_unique<launch::ChildProcess>(command);
}

void ProcessTrials::stop(std::uint64_t number) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  found->second.asked = true;
  if (found->second.process) found->second.process->kill(SIGTERM);
}

void ProcessTrials::look_at_rows(std::uint64_t number, Running& running, std::vector<TrialNews>& news) {
  for (const Json& row : running.rows.read()) {
    if (!std::exchange(running.has_rows, true) && running.process)
      running.start_seconds = std::chrono::duration<double>(system_clock().now() - running.begun).count();
    RowMeaning meaning = subject_.meaning(row);
    if (meaning.good_step) running.lost_steps = 0;
    if (meaning.lost_step) ++running.lost_steps;
    require_objectives(meaning);
    if (!meaning.hopeless.empty()) running.hopeless = meaning.hopeless;
    running.lacks = meaning.lacks;
    if (meaning.finished) running.finished = true;
    if (meaning.paused_at) running.paused_at = meaning.paused_at;
    if (!meaning.report || meaning.report->resource <= running.told) continue;
    if (running.until > 0 && meaning.report->resource >= running.until) {
      // Beyond it are rows of a life that nobody decided on.
      if (meaning.report->resource == running.until) running.held = std::move(meaning.report);
      continue;
    }
    running.told = meaning.report->resource;
    TrialNews told;
    told.number = number;
    told.report = std::move(*meaning.report);
    news.push_back(std::move(told));
  }
  if (running.lost_steps >= kHopelessSteps && running.hopeless.empty())
    running.hopeless = fmt::format("{} steps in a row had a loss that is not a number", running.lost_steps);
  if (running.hopeless.empty() || running.asked) return;
  running.asked = true;
  if (running.process) running.process->kill(SIGTERM);
}

std::vector<TrialNews> ProcessTrials::wait(std::chrono::milliseconds longest) {
  std::vector<TrialNews> news = std::exchange(at_once_, {});
  const auto until = system_clock().now() + longest;
  for (;;) {
    std::vector<int> handles;
    for (auto running = running_.begin(); running != running_.end();) {
      Running& trial = running->second;
      const std::uint64_t number = running->first;
      const double before = children_seconds();
      const std::optional<launch::Ending> ending =
          trial.process ? trial.process->poll() : std::optional(launch::Ending{});
      const double spent = children_seconds() - before;
      look_at_rows(number, trial, news);
      if (!ending) {
        handles.push_back(trial.process->handle());
        ++running;
        continue;
      }
      TrialNews end = judge_end(number, trial, *ending);
      const bool complete = end.what == TrialNews::What::kPaused || end.what == TrialNews::What::kFinished;
      if (complete && trial.held) {
        TrialNews told;
        told.number = number;
        told.report = *trial.held;
        news.push_back(std::move(told));
      }
      end.processor_seconds = spent;
      news.push_back(std::move(end));
      running = running_.erase(running);
    }
    if (!news.empty() || system_clock().now() >= until) return news;
    launch::wait_for_an_end(handles, std::min(kPoll, longest));
  }
}

TrialNews ProcessTrials::judge_end(std::uint64_t number, const Running& running, const launch::Ending& ending) const {
  using enum TrialNews::What;
  TrialNews news;
  news.number = number;
  news.seconds = running.earlier_seconds + std::chrono::duration<double>(system_clock().now() - running.begun).count();
  news.start_seconds = running.start_seconds;
  const bool silent = ending.good() && subject_.ends_silently();
  if (!running.hopeless.empty()) {
    news.what = kFailed;
    news.reason = running.hopeless;
  } else if (ending.good() && running.until > 0 && running.held && (silent || running.paused_at == running.until)) {
    news.what = kPaused;
  } else if (ending.good() && silent && running.told == 0 && !running.held && !running.lacks.empty()) {
    news.what = kFailed;
    news.reason = fmt::format("it ended without telling {}", join_words(running.lacks));
  } else if (ending.good() && (silent || running.finished)) {
    news.what = kFinished;
  } else if (running.asked) {
    news.what = kStopped;
  } else {
    // 2: what it was given makes no trial, and would not the next time.
    news.what = ending.exit_code == 2 ? kFailed : kDied;
    news.reason = subject_.failure(number);
    if (news.reason.empty()) news.reason = last_words(number);
    if (news.reason.empty()) news.reason = to_string(ending);
  }
  return news;
}

// The last line of what it printed, without our name before it.
std::string ProcessTrials::last_words(std::uint64_t number) const {
  std::ifstream file(subject_.folder(number) / "output.txt", std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(0, file.tellg()));
  file.seekg(static_cast<std::streamoff>(size > kLastWords ? size - kLastWords : 0));
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  for (const std::string prefix : {"muster: error: ", "muster: "}) {
    if (last.starts_with(prefix)) last.erase(0, prefix.size());
  }
  return excerpt(last, 500);
}

void ProcessTrials::ended(const Trial& trial) {
  if (keep_all_) return;
  not_needed_.insert(trial.number);
  std::erase_if(not_needed_, [&](std::uint64_t number) {
    if (copies_ && may_be_copied(log_.history().at(number))) return false;
    subject_.drop_state(number);
    return true;
  });
}

// Whoever has not come further than it may be told to go on from one of its checkpoints, or was told so already.
bool ProcessTrials::may_be_copied(const Trial& trial) const {
  return std::ranges::any_of(log_.history().trials(), [&](const Trial& other) {
    return !tuning::ended(other.state) && other.resource() <= trial.resource();
  });
}

void ProcessTrials::best(const Trial& trial) {
  link_best(trial.number);
}

// best -> trials/0007, replaced as one.
void ProcessTrials::link_best(std::uint64_t number) const {
  const std::filesystem::path link = study_ / "best";
  const std::filesystem::path next = study_ / ".best.next";
  std::error_code code;
  std::filesystem::remove(next, code);
  std::filesystem::create_directory_symlink(std::filesystem::path("trials") / tuning::trial_name(number), next, code);
  if (!code) std::filesystem::rename(next, link, code);
  if (!code) return;
  errno = code.value();
  throw_system_error("the best trial cannot be linked", link);
}

}  // namespace muster::cli
