// One machine for both ways in: next() goes from lane to lane, and the commit is what comes after the last one. It
// keeps nothing that a lost step would leave behind.
#include "muster/trainer/step_driver.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::trainer {
namespace {

using Seconds = std::chrono::duration<double>;

// Adds the time until it goes out of scope to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), start_(system_clock().now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_ += Seconds(system_clock().now() - start_).count(); }

 private:
  double& total_;
  Clock::Instant start_;
};

}  // namespace

Lane* StepDriver::next(LaneFeed& feed, const data::Cursor& cursor) {
  if (parts_.executor.active()) complete(feed);
  if (!plan_) begin(feed, cursor);
  if (const std::optional<std::size_t> index = parts_.strategy.claim()) return &prepare(feed, *index, false);
  if (const std::optional<std::size_t> index = next_verification()) return &prepare(feed, *index, true);
  commit();
  return nullptr;
}

void StepDriver::run(LaneFeed& feed, const data::Cursor& cursor,
                     const std::function<void(const data::StepPlan&, const Take&, PhaseTimes&)>& compute) {
  if (!plan_) begin(feed, cursor);
  compute(
      *plan_, [&](std::size_t lane) { return take(feed, lane); }, times_);
  commit();
}

void StepDriver::abandon() {
  parts_.executor.abandon();
  plan_.reset();
  done_.clear();
}

void StepDriver::begin(LaneFeed& feed, const data::Cursor& cursor) {
  plan_ = feed.order().plan(cursor);
  next_to_verify_ = 0;
  parts_.begin_step(cursor);
  parts_.strategy.announce_rule(parts_.rule());
  parts_.strategy.begin_step(*plan_);
  feed.forget_before(cursor.step);
  read_ahead(feed);
}

// Keeps `prefetch` lanes in reading, over the ends of steps and epochs.
void StepDriver::read_ahead(LaneFeed& feed) {
  data::StepPlan ahead = *plan_;
  // Lanes of this step that are done are not read again.
  std::vector<std::size_t> expected;
  for (const std::size_t lane : parts_.strategy.expected_lanes(ahead)) {
    if (std::find(done_.begin(), done_.end(), lane) == done_.end()) expected.push_back(lane);
  }
  feed.expect(ahead, expected);
  // A strategy that cannot guess gives no lanes; looking further than prefetch steps is never needed.
  for (std::size_t steps = 0; steps < parts_.options.prefetch && !feed.full(); ++steps) {
    ahead = feed.order().plan(ahead.next);
    feed.expect(ahead, parts_.strategy.expected_lanes(ahead));
  }
}

// The next lane of this step that this worker computes once more: the choice is the seed's, and the worker is the one
// after the one that has computed it.
std::optional<std::size_t> StepDriver::next_verification() {
  const SessionOptions& options = parts_.options;
  if (options.verify_rate <= 0) return std::nullopt;
  parts_.strategy.wait_lanes(Deadline::after(options.step_timeout));
  while (next_to_verify_ < plan_->lanes.size()) {
    const std::size_t index = next_to_verify_++;
    // Lanes of other hosts are verified there.
    if (!parts_.strategy.shows_lane(index)) continue;
    RandomStream random({.seed = options.seed,
                         .purpose = Purpose::kVerify,
                         .epoch = plan_->at.epoch,
                         .step = plan_->at.step,
                         .lane = index});
    if (random.uniform() >= options.verify_rate) continue;
    // Lanes of a worker that is gone are the first one's.
    const strategies::Members& members = parts_.strategy.membership().members();
    const auto next = static_cast<std::size_t>(parts_.strategy.lane_worker(index)) + 1;
    if (next % members.host_count() == members.host_index()) return index;
  }
  return std::nullopt;
}

data::Batch StepDriver::take(LaneFeed& feed, std::size_t index) {
  const Stopwatch watch(times_.load);
  parts_.strategy.membership().begin(comm::Activity::kLoading);
  data::Batch batch = feed.take(*plan_, index);
  done_.push_back(index);
  read_ahead(feed);
  return batch;
}

Lane& StepDriver::prepare(LaneFeed& feed, std::size_t index, bool repeated) {
  strategies::Strategy& strategy = parts_.strategy;
  LaneTask task{.plan = *plan_, .index = index, .repeated = repeated};
  task.batch = take(feed, index);
  compute_start_ = system_clock().now();
  strategy.membership().begin(comm::Activity::kComputing);
  task.buffers = strategy.committed().buffers;
  task.area = repeated ? parts_.check.area() : strategy.area(index);
  if (!repeated && strategy.uses_ready_gradients(index))
    task.ready = [&strategy, index](std::size_t tensor) { strategy.gradient_ready(index, tensor); };
  Lane& lane = parts_.executor.begin(std::move(task));
  if (parts_.stop_asked()) lane.request_stop();
  return lane;
}

void StepDriver::complete(LaneFeed& feed) {
  data::Batch batch = parts_.executor.finish();
  const Lane& lane = parts_.executor.lane();
  if (lane.repeated)
    compare_with_first(lane);
  else
    parts_.strategy.finish(lane.index, lane.told());
  feed.recycle(std::move(batch));
  times_.compute += Seconds(system_clock().now() - compute_start_).count();
  parts_.strategy.membership().begin(comm::Activity::kWaiting);
}

void StepDriver::compare_with_first(const Lane& lane) const {
  const std::string what = parts_.check.difference(parts_.strategy.area(lane.index));
  if (what.empty()) return;
  throw Error(ErrorKind::kMismatch,
              fmt::format("lane {} of step {} is not the same when it is computed again (first by worker {}, then by "
                          "worker {}): {}",
                          lane.index, lane.step, parts_.strategy.lane_worker(lane.index),
                          parts_.strategy.membership().members().group.rank(), what),
              {}, "Draw random numbers with LibTorch's default generator only, and keep nothing from lane to lane.");
}

void StepDriver::commit() {
  const Stopwatch watch(times_.update);
  count(parts_.strategy.commit(parts_.rule(), Deadline::after(parts_.options.step_timeout)));
  times_.wait += outcome_.waited;
  times_.update -= outcome_.waited;
  times_.exchange += outcome_.exchanged;
  plan_.reset();
  done_.clear();
}

void StepDriver::count(const strategies::StepOutcome& committed) {
  outcome_ = committed;
  skipped_.count(outcome_.applied);
}

}  // namespace muster::trainer
