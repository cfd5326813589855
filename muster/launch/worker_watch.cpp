// Looks at the arena's words first, which cost nothing, and at /proc only for whom these make suspicious. How long a
// worker may compute without an end is learned from how long steps have taken.
#include "muster/launch/worker_watch.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::launch {
namespace {

constexpr std::size_t kStepTimes = 31;

}  // namespace

WorkerWatch::WorkerWatch(const WorkerWatchOptions& options, std::size_t seats, const Clock& clock,
                         const control::ProcessWatch::View& signs, const control::StartWatch::View& work)
    : options_(options), clock_(clock) {
  const std::chrono::nanoseconds gap = options_.liveness / 4;
  for (std::size_t seat = 0; seat < seats; ++seat)
    seats_.push_back({control::ProcessWatch(control::ProcessWatch::Idle::kSilent, gap, clock, signs),
                      control::ProcessWatch(control::ProcessWatch::Idle::kWaiting, gap, clock, signs),
                      control::StartWatch(clock, work)});
}

void WorkerWatch::see_step(std::uint64_t step) {
  if (step == last_step_) return;
  const auto now = clock_.now();
  if (last_step_at_) step_times_.push_back(now - *last_step_at_);
  if (step_times_.size() > kStepTimes) step_times_.pop_front();
  last_step_ = step;
  last_step_at_ = now;
}

std::optional<Finding> WorkerWatch::look_at(const control::Worker& worker, const WorkerSigns& signs) {
  Seat& seat = seats_[static_cast<std::size_t>(worker.rank)];
  if (!signs.seated) {
    const std::chrono::nanoseconds without = seat.start.since_progress(signs.group);
    if (signs.unknown && !seat.start.stopped()) return std::nullopt;
    const control::Judgement stuck =
        control::judge_start(without, seat.start.stopped(), options_.start, options_.liveness);
    return stuck.lost ? std::optional(Finding{.reason = stuck.reason}) : std::nullopt;
  }
  if (signs.doing && signs.doing->activity == comm::Activity::kDone) return look_at_end(seat, worker, *signs.doing);
  if (std::optional<Finding> silent = look_at_silence(seat, worker, signs)) return silent;
  return look_at_work(seat, worker, signs);
}

// What it does when its work is done is its own affair, unless it is stopped: then it never ends, and the job with it.
std::optional<Finding> WorkerWatch::look_at_end(Seat& seat, const control::Worker& worker,
                                                const comm::Board::Doing& doing) {
  const control::Seen seen = seat.silence.look(worker.process, Clock::Instant{doing.since});
  if (seen.stopped < options_.liveness) return std::nullopt;
  return Finding{.silent = true, .reason = "is stopped, and its work was done"};
}

// A process that gives no sign of life may wake up and write: it has to be dead before others take its place.
std::optional<Finding> WorkerWatch::look_at_silence(Seat& seat, const control::Worker& worker,
                                                    const WorkerSigns& signs) {
  const Clock::Instant beat{signs.beat};
  if (signs.beat.count() == 0 || clock_.now() - beat < options_.liveness / 4) return std::nullopt;
  const control::Judgement silent =
      control::judge_silence(seat.silence.look(worker.process, beat), options_.liveness, options_.start);
  return silent.lost ? std::optional(Finding{.silent = true, .reason = silent.reason}) : std::nullopt;
}

// Alive, but not getting on: an endless loop in user code, say. Waiting for others, for samples and for disks has
// deadlines of its own.
std::optional<Finding> WorkerWatch::look_at_work(Seat& seat, const control::Worker& worker, const WorkerSigns& signs) {
  if (!signs.doing) return std::nullopt;
  const comm::Activity activity = signs.doing->activity;
  if (activity != comm::Activity::kComputing && activity != comm::Activity::kEvaluating) return std::nullopt;
  const std::chrono::nanoseconds limit = hang_limit(clock_.now() - worker.entered);
  const Clock::Instant since{signs.doing->since};
  if (clock_.now() - since < limit / 2) return std::nullopt;
  const control::Judgement hung = control::judge_work(seat.work.look(worker.process, since), limit, options_.liveness);
  return hung.lost ? std::optional(Finding{.hung = true, .reason = hung.reason}) : std::nullopt;
}

std::chrono::nanoseconds WorkerWatch::hang_limit(std::chrono::nanoseconds member_for) const {
  std::vector<std::chrono::nanoseconds> sorted(step_times_.begin(), step_times_.end());
  std::sort(sorted.begin(), sorted.end());
  std::chrono::nanoseconds limit = options_.hang;
  if (!sorted.empty()) limit = std::max(limit, 10 * sorted[sorted.size() / 2]);
  // First runs are slow: caches, pages, code that is compiled.
  const std::chrono::nanoseconds warm_up = 6 * options_.hang;
  return member_for < warm_up + limit || sorted.empty() ? limit + warm_up : limit;
}

}  // namespace muster::launch
