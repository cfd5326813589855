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

std::optional<Finding> WorkerWatch::look_at(std::size_t index, const WatchedWorker& worker) {
  Seat& seat = seats_[index];
  if (!worker.ready) {
    const std::chrono::nanoseconds without = seat.start.since_progress(worker.group);
    if (worker.unknown && !seat.start.stopped()) return std::nullopt;
    const control::Judgement stuck =
        control::judge_start(without, seat.start.stopped(), options_.start, options_.liveness);
    return stuck.lost ? std::optional(Finding{.reason = stuck.reason}) : std::nullopt;
  }
  // What it does when its work is done is its own affair.
  if (worker.doing && worker.doing->activity == comm::Activity::kDone) return std::nullopt;
  if (std::optional<Finding> silent = look_at_silence(seat, worker)) return silent;
  return look_at_work(seat, worker);
}

// A process that gives no sign of life may wake up and write: it has to be dead before others take its place.
std::optional<Finding> WorkerWatch::look_at_silence(Seat& seat, const WatchedWorker& worker) {
  const Clock::Instant beat{worker.beat};
  if (worker.beat.count() == 0 || clock_.now() - beat < options_.liveness / 4) return std::nullopt;
  const control::Judgement silent =
      control::judge_silence(seat.silence.look(worker.process, beat), options_.liveness, options_.start);
  return silent.lost ? std::optional(Finding{.silent = true, .reason = silent.reason}) : std::nullopt;
}

// Alive, but not getting on: an endless loop in user code, say. Waiting for others, for samples and for disks has
// deadlines of its own.
std::optional<Finding> WorkerWatch::look_at_work(Seat& seat, const WatchedWorker& worker) {
  if (!worker.doing) return std::nullopt;
  const comm::Activity activity = worker.doing->activity;
  if (activity != comm::Activity::kComputing && activity != comm::Activity::kEvaluating) return std::nullopt;
  const std::chrono::nanoseconds limit = hang_limit(worker.member_for);
  const Clock::Instant since{worker.doing->since};
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
