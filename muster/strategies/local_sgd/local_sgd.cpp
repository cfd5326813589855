#include "muster/strategies/local_sgd/local_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/kernel.h"
#include "muster/strategies/all_reduce/bucket_reducer.h"
#include "muster/strategies/replica/replica_strategy.h"

namespace muster::strategies {
namespace {

MUSTER_KERNEL void scale(float* values, std::size_t count, float factor) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] *= factor;
}

// What a worker tells all others at an average; its counts of updates and its buffers follow.
struct AverageHeader {
  double trained = 0;  // samples since the last average, without those of skipped steps
  // Of the step that ends with the average.
  compute::LaneReport step{};
  double applied = 0;
};

class LocalSgd final : public ReplicaStrategy {
 public:
  explicit LocalSgd(StrategyOptions options)
      : ReplicaStrategy(std::move(options)),
        local_(this->options().local_sgd),
        reducer_(group(), this->options().layout, {.bucket_bytes = this->options().all_reduce.bucket_bytes}),
        // A worker alone without outer rate or momentum has nothing to average with: it trains as if by itself.
        averages_(workers() > 1 || local_.outer_lr != 1 || local_.outer_momentum > 0),
        update_bytes_(this->options().layout.tensors().size() * sizeof(std::uint64_t)),
        message_bytes_(sizeof(AverageHeader) + update_bytes_ + this->options().buffers.bytes) {
    place_sum(reducer_.values());
    if (averages_) anchor_.resize(this->options().layout.size());
    if (local_.outer_momentum > 0) velocity_.resize(this->options().layout.size());
  }

  std::size_t state_bytes() const override {
    return ReplicaStrategy::state_bytes() + reducer_.values().size_bytes() +
           (anchor_.size() + velocity_.size()) * sizeof(float);
  }
  void restore(const CommittedState& state) override;
  StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override;
  void synchronize(Deadline deadline) override;

 private:
  struct LocalStep {
    compute::Verdict verdict;
    compute::LaneReport report;  // sums over this worker's lanes
    double samples = 0;
  };

  LocalStep train(const data::StepPlan& step, const compute::UpdateRule& rule);
  bool average_is_due(const data::StepPlan& step) const;
  std::vector<AverageHeader> average(const AverageHeader& mine, bool outer, const Deadline& deadline);
  void average_slot(std::span<const std::size_t> buckets, std::span<float> values, float weight,
                    const Deadline& deadline);
  void average_parameters(std::span<const std::size_t> buckets, float weight, bool outer, const Deadline& deadline);
  void keep_current();

  // Constant after construction.
  const LocalSgdOptions local_;
  BucketReducer reducer_;  // its array also holds the sum of this worker's lanes, until the step is done
  const bool averages_;
  const std::size_t update_bytes_;
  const std::size_t message_bytes_;
  // Flat: what all workers had at the last average, and the outer momentum. Empty where they are not needed.
  std::vector<float> anchor_;
  std::vector<float> velocity_;
  // Since the last average.
  double trained_ = 0;
  std::uint64_t steps_ = 0;
  compute::LaneReport wishes_;  // to stop, changes
};

void LocalSgd::restore(const CommittedState& state) {
  ReplicaStrategy::restore(state);
  if (averages_) std::ranges::copy(committed().parameters, anchor_.begin());
  std::ranges::fill(velocity_, 0.0F);
  trained_ = 0;
  steps_ = 0;
  wishes_ = {};
}

// One step of this worker alone, into the next version.
LocalSgd::LocalStep LocalSgd::train(const data::StepPlan& step, const compute::UpdateRule& rule) {
  LocalStep result;
  const LaneShare lanes = lanes_of(rank());
  if (lanes.size() == 0) {
    result.verdict.apply = false;
    return result;
  }
  const model::FlatLayout& layout = options().layout;
  std::vector<std::uint8_t> present(layout.tensors().size());
  std::vector<std::span<const std::byte>> buffers;
  for (std::size_t lane = lanes.first; lane < lanes.last; ++lane) {
    const HostLane& host = own(lane);
    result.samples += static_cast<double>(step.lanes[lane].size());
    result.report += *host.report;
    for (std::size_t tensor = 0; tensor < present.size(); ++tensor)
      present[tensor] |= host.area.present[tensor];
    buffers.push_back(host.area.buffers);
  }
  sum_lanes(layout, own_gradients(), all_blocks(), reducer_.values());
  // Lanes are weighted for the mean over the whole step.
  const double factor = static_cast<double>(step.samples()) / result.samples;
  if (factor != 1) scale(reducer_.values().data(), reducer_.values().size(), static_cast<float>(factor));

  const std::array sum{compute::LaneGradient{reducer_.values().data(), present.data()}};
  HostVersion& target = next();
  compute::reduce_slice(layout, sum, all_blocks(), target.state, target.records);
  result.verdict = compute::judge_step(target.records, rule.clip_norm);
  if (!result.verdict.apply) return result;
  if (rule.optimizer->needs_norms())
    compute::measure_slice(layout, sum, rule, result.verdict, all_blocks(), current().state, target.state,
                           target.norms);
  compute::update_slice(layout, sum, rule, result.verdict, all_blocks(), current().state, target.state, target.norms);
  std::vector<double> weights;
  for (std::size_t lane = lanes.first; lane < lanes.last; ++lane)
    weights.push_back(static_cast<double>(step.lanes[lane].size()) / result.samples);
  compute::merge_buffers(options().buffers, buffers, weights, target.buffers);
  return result;
}

// From the job and the cursor alone, so that all workers come to the same answer without asking.
bool LocalSgd::average_is_due(const data::StepPlan& step) const {
  if (step.next.step <= local_.averaged_steps) return true;
  if (local_.period == 0) return step.next.epoch != step.at.epoch;
  return step.next.step % local_.period == 0;
}

StepOutcome LocalSgd::commit(const compute::UpdateRule& rule, Deadline deadline) {
  const data::StepPlan& step = finished_step();
  const LocalStep local = train(step, rule);
  const double trained = trained_ + (local.verdict.apply ? local.samples : 0);
  // What the workers have to agree on waits for the next average.
  compute::LaneReport wishes = wishes_;
  wishes += {.stop = local.report.stop, .change = local.report.change};
  const bool due = averages_ && average_is_due(step);

  StepOutcome outcome{.applied = local.verdict.apply || local.samples == 0,
                      .gradient_norm = local.verdict.gradient_norm,
                      .samples = step.samples()};
  double samples = local.samples;
  compute::LaneReport totals = local.report;
  if (due) {
    if (!local.verdict.apply) keep_current();
    compute::LaneReport told = local.report;
    told += wishes;
    const AverageHeader mine{trained, told, outcome.applied ? 1.0 : 0.0};
    samples = static_cast<double>(step.samples());
    totals = {};
    for (const AverageHeader& worker : average(mine, step.next.step > local_.averaged_steps, deadline)) {
      totals += worker.step;
      outcome.applied &= worker.applied > 0;
    }
  }
  if (samples > 0) {
    outcome.loss = totals.loss_sum / samples;
    outcome.score = totals.score * (static_cast<double>(step.samples()) / samples);
  }
  outcome.synchronized = due || workers() == 1;
  if (outcome.synchronized) {
    outcome.stop = totals.stop > 0;
    outcome.change = static_cast<std::uint64_t>(totals.change);
  }
  outcome.waited = waited();
  trained_ = due ? 0 : trained;
  steps_ = due ? 0 : steps_ + 1;
  wishes_ = due ? compute::LaneReport() : wishes;
  commit_step(due || local.verdict.apply);
  return outcome;
}

void LocalSgd::synchronize(Deadline deadline) {
  if (!averages_ || steps_ == 0) return;
  keep_current();
  average({.trained = trained_}, true, deadline);
  trained_ = 0;
  steps_ = 0;
  flip();
}

// The next version begins as a copy of the committed one.
void LocalSgd::keep_current() {
  std::ranges::copy(current().state.parameters, next().state.parameters.begin());
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(options().slots); ++slot)
    std::ranges::copy(current().state.state[slot], next().state.state[slot].begin());
  std::ranges::copy(current().state.updates, next().state.updates.begin());
  std::ranges::copy(current().buffers, next().buffers.begin());
}

// Averages the next version over the workers. Returns what each of them told.
std::vector<AverageHeader> LocalSgd::average(const AverageHeader& mine, bool outer, const Deadline& deadline) {
  HostVersion& target = next();
  std::vector<std::byte> sent(message_bytes_);
  std::memcpy(sent.data(), &mine, sizeof mine);
  std::memcpy(sent.data() + sizeof mine, target.state.updates.data(), update_bytes_);
  std::ranges::copy(target.buffers, sent.begin() + static_cast<std::ptrdiff_t>(sizeof mine + update_bytes_));
  std::vector<std::byte> received(message_bytes_ * workers());
  timed([&] {
    group().all_gather({comm::ElementType::kUint8, sent.data(), sent.size()},
                       comm::View(comm::ElementType::kUint8, received.data(), received.size()), deadline);
  });

  std::vector<AverageHeader> headers(workers());
  std::vector<std::span<const std::byte>> buffers;
  std::vector<std::uint8_t> trained(target.state.updates.size());  // by anybody, ever
  double total = 0;
  for (std::size_t worker = 0; worker < workers(); ++worker) {
    const auto theirs = std::span<const std::byte>(received).subspan(worker * message_bytes_, message_bytes_);
    std::memcpy(&headers[worker], theirs.data(), sizeof(AverageHeader));
    total += headers[worker].trained;
    buffers.push_back(theirs.subspan(sizeof(AverageHeader) + update_bytes_));
    for (std::size_t tensor = 0; tensor < trained.size(); ++tensor) {
      std::uint64_t updates;
      std::memcpy(&updates, theirs.data() + sizeof(AverageHeader) + tensor * sizeof updates, sizeof updates);
      if (updates > 0) trained[tensor] = 1;
      if (local_.average_state) target.state.updates[tensor] = std::max(target.state.updates[tensor], updates);
    }
  }
  // If everybody skipped everything nothing has changed, and any weights do.
  std::vector<double> weights;
  for (const AverageHeader& header : headers)
    weights.push_back(total > 0 ? header.trained / total : 1.0 / static_cast<double>(workers()));
  compute::merge_buffers(options().buffers, buffers, weights, target.buffers);
  const auto weight = static_cast<float>(weights[rank()]);
  std::vector<std::size_t> averaged(reducer_.buckets().size());
  std::iota(averaged.begin(), averaged.end(), std::size_t{0});
  for (const std::size_t late : reducer_.late_buckets_of(trained))
    averaged.push_back(late);
  for (std::size_t slot = 0; local_.average_state && slot < static_cast<std::size_t>(options().slots); ++slot)
    average_slot(averaged, target.state.state[slot], weight, deadline);
  average_parameters(averaged, weight, outer, deadline);
  return headers;
}

void LocalSgd::average_slot(std::span<const std::size_t> buckets, std::span<float> values, float weight,
                            const Deadline& deadline) {
  const std::span<float> sums = reducer_.values();
  for (const std::size_t index : buckets) {
    const Bucket& bucket = reducer_.bucket(index);
    for (std::uint64_t i = bucket.begin; i < bucket.end; ++i)
      sums[i] = weight * values[i];
    timed([&] { reducer_.reduce(index, deadline); });
    std::copy(sums.begin() + static_cast<std::ptrdiff_t>(bucket.begin),
              sums.begin() + static_cast<std::ptrdiff_t>(bucket.end),
              values.begin() + static_cast<std::ptrdiff_t>(bucket.begin));
  }
}

// Changes are averaged, not values: what nobody changed keeps its bits, and rounding is that of the small change.
void LocalSgd::average_parameters(std::span<const std::size_t> buckets, float weight, bool outer,
                                  const Deadline& deadline) {
  const std::span<float> changes = reducer_.values();
  const std::span<float> parameters = next().state.parameters;
  for (const std::size_t index : buckets) {
    const Bucket& bucket = reducer_.bucket(index);
    for (std::uint64_t i = bucket.begin; i < bucket.end; ++i)
      changes[i] = weight * (parameters[i] - anchor_[i]);
    timed([&] { reducer_.reduce(index, deadline); });
  }
  // That was the last collective: anchor and momentum change only now.
  const auto rate = static_cast<float>(outer ? local_.outer_lr : 1.0);
  const auto momentum = static_cast<float>(local_.outer_momentum);
  for (const std::size_t index : buckets) {
    const Bucket& bucket = reducer_.bucket(index);
    for (std::uint64_t i = bucket.begin; i < bucket.end; ++i) {
      float change = changes[i];
      if (outer && !velocity_.empty()) change = velocity_[i] = momentum * velocity_[i] + change;
      parameters[i] = anchor_[i] = anchor_[i] + rate * change;
    }
  }
}

void validate(const LocalSgdOptions& options) {
  if (!(std::isfinite(options.outer_lr) && options.outer_lr > 0))
    throw Error(ErrorKind::kInvalidInput, fmt::format("local_sgd: outer_lr is {}", options.outer_lr), {},
                "The outer rate is greater than 0; 1 takes the average as it is.");
  if (!(options.outer_momentum >= 0 && options.outer_momentum < 1))
    throw Error(ErrorKind::kInvalidInput, fmt::format("local_sgd: outer_momentum is {}", options.outer_momentum), {},
                "The outer momentum is at least 0 and below 1; 0 is none.");
}

}  // namespace

std::unique_ptr<Strategy> make_local_sgd(StrategyOptions options) {
  validate(options.local_sgd);
  return std::make_unique<LocalSgd>(std::move(options));
}

}  // namespace muster::strategies
