// What one worker's end means alone is judged first (worker_ending.h); what is kept of it here decides later, when it
// is known whether others went on.
#include "muster/launch/job_ending.h"

#include <signal.h>

#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/membership.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kGraceAfterFailure{5000};
constexpr std::chrono::milliseconds kFounderPatience{1000};  // what a process may take to die
constexpr int kRefused = 2;                                  // exit code

int exit_code_of(const Ending& ending) {
  if (ending.unknown) return 1;
  return ending.signal != 0 ? 128 + ending.signal : ending.exit_code;
}

// Of a worker that was taken over nobody is told how it ended; whether it was done it has said itself.
Ending as_far_as_known(const EndedWorker& worker, int passed_on) {
  if (!worker.ending.unknown || !worker.view.done) return worker.ending;
  return {.exit_code = passed_on == 0 ? 0 : 128 + passed_on};
}

}  // namespace

Aftermath JobEnding::bury(const EndedWorker& worker, const std::function<std::string(const Ending&)>& explain) {
  const Ending ending = as_far_as_known(worker, passed_on_);
  EndingView view = worker.view;
  view.signal = passed_on_;
  view.finishing = finishing_;
  view.hopeless = hopeless_ != 0;
  Aftermath after{judge_ending(view, ending), worker.failures, {}};
  const Gone gone{worker.rank, worker.pid, ending, worker.step, clock_.now(), worker.founder};
  switch (after.judgement.verdict) {
    case EndingVerdict::kRefused:
      // It may have been told to end before it could end by itself.
      if (hopeless_ == 0) hopeless_ = ending.good() || exit_code_of(ending) > 128 ? kRefused : exit_code_of(ending);
      after.told.push_back(fmt::format("the job ends: worker {} was refused", worker.rank));
      break;
    case EndingVerdict::kFinished:
      finishing_ = true;
      left_.push_back(gone);
      break;
    case EndingVerdict::kStopped:
      stopped_ = true;
      stopped_together_ |= passed_on_ == 0 && asked_to_end(ending);
      if (worker.rank == 0 || exit_code_ == 0) exit_code_ = exit_code_of(ending);
      break;
    case EndingVerdict::kNothing:
      break;
    case EndingVerdict::kBroken:
      if (!broken_by_) broken_by_ = gone;
      break;
    case EndingVerdict::kGaveUp:
      if (!gave_up_) gave_up_ = gone;
      ++after.failures;
      break;
    case EndingVerdict::kHopeless:
      if (hopeless_ == 0) hopeless_ = ending.exit_code;
      after.told = failed_start(gone);
      break;
    case EndingVerdict::kLost:
      after.told.push_back(fmt::format("worker {} (pid {}) is lost: {}", worker.rank, worker.pid, explain(ending)));
      lose(worker, ending, after);
      break;
  }
  return after;
}

// What follows for its seat, and whether another one would do the same.
void JobEnding::lose(const EndedWorker& worker, const Ending& ending, Aftermath& after) {
  // One that was silent was stopped or starved from outside: heartbeats do not depend on lanes.
  if (!worker.silent) count_lanes(worker, ending);
  if (worker.view.member) {
    failure_ = ending.exit_code;
    if (worker.member_for > control::kForgiven) after.failures = 0;
  }
  ++after.failures;
  const bool mistaken = is_users_mistake(ending);
  if (mistaken && !worker.view.member) {
    after.told.push_back(
        fmt::format("worker {} says that it was started with a mistake: its place stays empty for {} minutes",
                    worker.rank, control::kQuarantine.count()));
    after.failures = control::kMostFailures;
  }
  if (is_crash(ending) && worker.saw_no_step) {
    const auto reason = early_endings_.crashed(static_cast<std::size_t>(worker.rank), ending, worker.step);
    if (reason) {
      after.told.push_back(fmt::format("the job ends: {}. What they have printed says why.", *reason));
      hopeless_ = exit_code_of(ending);
    }
  }
  const bool by_itself = ending.signal == 0 && !ending.unknown && ending.exit_code <= 128;
  // A worker of ours says why, unless it lost a peer.
  if (by_itself && worker.view.member && worker.counts_steps && hopeless_ == 0 && !(grace_ && worker.reason.empty())) {
    const auto reason = early_endings_.failed({static_cast<std::size_t>(worker.rank), ending.exit_code, worker.step,
                                               worker.reason, worker.started, clock_.now()});
    if (reason) {
      after.told.push_back(fmt::format("the job ends: {}", *reason));
      hopeless_ = ending.exit_code;
    }
  }
  if (after.failures == control::kMostFailures && hopeless_ == 0 && !mistaken)
    after.told.push_back(fmt::format("worker {} has failed {} times in a row: its place stays empty for {} minutes",
                                     worker.rank, after.failures, control::kQuarantine.count()));
}

// A lane that kills every worker that computes it must not kill all of them.
void JobEnding::count_lanes(const EndedWorker& worker, const Ending& ending) {
  for (const LaneOfStep& lane : worker.lanes) {
    if (++deaths_[lane] < kDeathsOfALane) continue;
    // One that has ended by itself has said why, and so will whoever computes the lane after it.
    if (ending.signal == 0 && !ending.unknown)
      hopeless_ = ending.exit_code;
    else
      deadly_ = lane;
  }
}

// A worker of ours has said why.
std::vector<std::string> JobEnding::failed_start(const Gone& gone) const {
  if (grace_) return {};
  return {fmt::format("the job ends: worker {} (pid {}) ended with exit code {} before anybody trained", gone.rank,
                      gone.pid, gone.ending.exit_code)};
}

std::optional<std::string> JobEnding::judge_who_gave_up(const Now& now) {
  if (!gave_up_) return std::nullopt;
  const bool founder_died = now.founder == 0 || now.founder != gave_up_->founder;
  if (!now.members && !founder_died && clock_.now() - gave_up_->since <= kFounderPatience) return std::nullopt;
  const Gone gone = *std::exchange(gave_up_, std::nullopt);
  if (now.members)
    return fmt::format("worker {} (pid {}) is lost: exit code {}, before it could train", gone.rank, gone.pid,
                       gone.ending.exit_code);
  if (founder_died) return std::nullopt;
  if (hopeless_ == 0) hopeless_ = gone.ending.exit_code;
  const std::vector<std::string> told = failed_start(gone);
  return told.empty() ? std::nullopt : std::optional(told.front());
}

std::vector<JobEnding::Leaver> JobEnding::early_leavers(const Now& now) {
  // Workers of ours end together.
  if (left_.empty() || passed_on_ != 0 || grace_) return {};
  const bool waiting = now.generation == 0 && now.ready;
  if (!waiting && !(now.members && now.step > left_.back().step)) return {};
  std::vector<Leaver> leavers;
  for (const Gone& one : std::exchange(left_, {}))
    leavers.push_back({one.rank, fmt::format("worker {} (pid {}) has left after step {} without an error, and the "
                                             "others train on: its place stays empty",
                                             one.rank, one.pid, one.step)});
  finishing_ = false;
  patience_.reset();
  return leavers;
}

int JobEnding::signal_to_pass(int requested, bool stop, const Now& now) {
  if (requested == 0 && stop) requested = SIGTERM;
  const bool nobody_trains = now.generation > 0 && !now.members && !finishing_ && !stopped_;
  // Those who were told are lost before one of them could end the job: others have to.
  if (nobody_trains && passed_on_ != SIGKILL) passed_on_ = 0;
  if (requested == 0 || requested == passed_on_) return 0;
  if (nobody_trains && requested != SIGKILL && !failed()) return 0;
  passed_on_ = requested;
  return requested;
}

JobEnding::Hurry JobEnding::hurry(const Now& now) {
  Hurry hurry;
  if (!finishing_ && !failed()) return hurry;
  // Those who train can write a checkpoint.
  hurry.tell = hopeless_ != 0 && now.members && !std::exchange(told_of_failure_, true);
  // What a user's program does before it trains nobody knows.
  hurry.kill_newcomers = now.generation > 0 || (hopeless_ != 0 && grace_);
  if (!patience_ && (grace_ || failed())) patience_ = Deadline::after(grace_.value_or(kGraceAfterFailure), clock_);
  // A signal has its own grace, the workers'.
  hurry.kill_all = patience_ && patience_->passed() && passed_on_ == 0;
  return hurry;
}

bool JobEnding::over(const Now& now) const {
  return finishing_ || stopped_ || failed() || (passed_on_ != 0 && now.generation == 0);
}

int JobEnding::exit_code() const {
  if (!broken_by_) return hopeless_ != 0 ? hopeless_ : exit_code_;
  if (broken_by_->ending.signal != 0)
    throw Error(ErrorKind::kPeerLost, fmt::format("worker {} (pid {}) was {}", broken_by_->rank, broken_by_->pid,
                                                  to_string(broken_by_->ending)));
  return broken_by_->ending.exit_code;
}

}  // namespace muster::launch
