// train() is a step of this worker alone, average() what all do together; commit() calls one or both. Whether an
// average is due follows from job and cursor, so that nobody has to ask.
#include "muster/strategies/local_sgd/local_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/kernel.h"
#include "muster/strategies/replica/bucket_reducer.h"
#include "muster/strategies/replica/replica_strategy.h"
#include "muster/strategies/strategy_kind.h"

namespace muster::strategies {
namespace {

constexpr std::string_view kVelocity = "outer_momentum";  // its name in the committed state

MUSTER_KERNEL void scale(float* values, std::size_t count, float factor) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] *= factor;
}

// What a worker tells all others at an average; its counts of updates and its buffers follow.
struct AverageHeader {
  double trained = 0;  // samples since the last average, without those of skipped steps
  // Of the step that ends with the average.
  LaneResult step{};
  double applied = 0;
};

class LocalSgdStrategy final : public ReplicaStrategy {
 public:
  LocalSgdStrategy(const LocalSgd& chosen, StrategyOptions options)
      : ReplicaStrategy(std::move(options)),
        local_(chosen),
        reducer_(group(), this->options().layout),
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
  CommittedState committed() const override;
  void restore(const CommittedState& state) override;
  StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override;
  void synchronize(Deadline deadline) override;

 private:
  struct LocalStep {
    compute::Verdict verdict;
    LaneResult told;  // by this worker's lanes together
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
  const LocalSgd local_;
  const std::uint64_t averaged_steps_ = static_cast<std::uint64_t>(local_.averaged_steps);
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
  Wishes wishes_;
};

CommittedState LocalSgdStrategy::committed() const {
  CommittedState state = ReplicaStrategy::committed();
  if (!velocity_.empty()) state.extra.push_back({std::string(kVelocity), std::as_bytes(std::span(velocity_))});
  return state;
}

void LocalSgdStrategy::restore(const CommittedState& state) {
  ReplicaStrategy::restore(state);
  if (averages_) std::ranges::copy(committed().parameters, anchor_.begin());
  // What the first worker gives counts, as of everything.
  std::ranges::fill(velocity_, 0.0F);
  const std::span<std::byte> velocity = std::as_writable_bytes(std::span(velocity_));
  const std::span<const std::byte> given = state.extra_part(kVelocity);
  if (!given.empty() && !velocity.empty() && given.size() != velocity.size())
    throw Error(ErrorKind::kMismatch,
                fmt::format("the state's {} has {} bytes, expected {}", kVelocity, given.size(), velocity.size()), {},
                "It is of another model.");
  std::ranges::copy(given.first(std::min(given.size(), velocity.size())), velocity.begin());
  if (!velocity.empty())
    group().broadcast(comm::View(comm::ElementType::kUint8, velocity.data(), velocity.size()), 0,
                      Deadline::after(kStartTimeout));
  trained_ = 0;
  steps_ = 0;
  wishes_ = {};
}

// One step of this worker alone, into the next version.
LocalSgdStrategy::LocalStep LocalSgdStrategy::train(const data::StepPlan& step, const compute::UpdateRule& rule) {
  LocalStep result;
  const ReplicaLanes lanes = lanes_of(rank());
  if (lanes.size() == 0) {
    result.verdict.apply = false;
    return result;
  }
  const model::FlatLayout& layout = options().layout;
  std::vector<std::uint8_t> present(layout.tensors().size());
  std::vector<std::span<const std::byte>> buffers;
  std::vector<LaneResult> told;
  for (std::size_t lane = lanes.first; lane < lanes.last; ++lane) {
    const HostLane& host = own(lane);
    result.samples += static_cast<double>(step.lanes[lane].size());
    told.push_back(*host.result);
    for (std::size_t tensor = 0; tensor < present.size(); ++tensor)
      present[tensor] |= host.area.present[tensor];
    buffers.push_back(host.area.buffers);
  }
  result.told = fold_reports(told);
  sum_lanes(layout, own_gradients(), all_blocks(), reducer_.values());
  // Lanes are weighted for the mean over the whole step.
  const double factor = static_cast<double>(step.samples()) / result.samples;
  if (factor != 1) scale(reducer_.values().data(), reducer_.values().size(), static_cast<float>(factor));

  const compute::LaneGradient sum{reducer_.values().data(), present.data()};
  HostVersion& target = next();
  compute::examine_slice(layout, sum, all_blocks(), target.records);
  result.verdict = compute::judge_step(target.records, rule.clip_norm);
  if (!result.verdict.apply) return result;
  if (rule.needs_norms())
    compute::measure_slice(layout, sum, rule, result.verdict, all_blocks(), current().state, target.norms);
  compute::update_slice(layout, sum, rule, result.verdict, all_blocks(), current().state, target.state, target.norms);
  std::vector<double> weights;
  for (std::size_t lane = lanes.first; lane < lanes.last; ++lane)
    weights.push_back(static_cast<double>(step.lanes[lane].size()) / result.samples);
  compute::merge_buffers(options().buffers, buffers, weights, target.buffers);
  return result;
}

// From the job and the cursor alone, so that all workers come to the same answer without asking.
bool LocalSgdStrategy::average_is_due(const data::StepPlan& step) const {
  if (step.next.step <= averaged_steps_) return true;
  if (local_.period == 0) return step.next.epoch != step.at.epoch;
  return step.next.step % static_cast<std::uint64_t>(local_.period) == 0;
}

StepOutcome LocalSgdStrategy::commit(const compute::UpdateRule& rule, Deadline deadline) {
  const data::StepPlan& step = finished_step();
  const LocalStep local = train(step, rule);
  const double trained = trained_ + (local.verdict.apply ? local.samples : 0);
  // What the workers have to agree on waits for the next average.
  Wishes wishes = wishes_;
  wishes |= local.told.wishes;
  const bool due = averages_ && average_is_due(step);

  StepOutcome outcome{.applied = local.verdict.apply || local.samples == 0,
                      .gradient_norm = local.verdict.gradient_norm,
                      .samples = step.samples()};
  double samples = local.samples;
  LaneResult totals = local.told;
  if (due) {
    if (!local.verdict.apply) keep_current();
    const AverageHeader mine{trained, {local.told.report, wishes}, outcome.applied ? 1.0 : 0.0};
    samples = static_cast<double>(step.samples());
    std::vector<LaneResult> results;
    for (const AverageHeader& worker : average(mine, step.next.step > averaged_steps_, deadline)) {
      results.push_back(worker.step);
      outcome.applied &= worker.applied > 0;
    }
    totals = fold_reports(results);
  }
  outcome.synchronized = due || workers() == 1;
  if (!outcome.synchronized) totals.wishes = {};
  outcome.take(totals, samples);
  outcome.waited = waited();
  trained_ = due ? 0 : trained;
  steps_ = due ? 0 : steps_ + 1;
  wishes_ = due ? Wishes() : wishes;
  commit_step(due || local.verdict.apply);
  return outcome;
}

void LocalSgdStrategy::synchronize(Deadline deadline) {
  if (!averages_ || steps_ == 0) return;
  keep_current();
  average({.trained = trained_}, true, deadline);
  trained_ = 0;
  steps_ = 0;
  flip();
}

// The next version begins as a copy of the committed one.
void LocalSgdStrategy::keep_current() {
  std::ranges::copy(current().state.parameters, next().state.parameters.begin());
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(options().slots); ++slot)
    std::ranges::copy(current().state.state[slot], next().state.state[slot].begin());
  std::ranges::copy(current().state.updates, next().state.updates.begin());
  std::ranges::copy(current().buffers, next().buffers.begin());
}

// Averages the next version over the workers. Returns what each of them told.
std::vector<AverageHeader> LocalSgdStrategy::average(const AverageHeader& mine, bool outer, const Deadline& deadline) {
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

void LocalSgdStrategy::average_slot(std::span<const std::size_t> buckets, std::span<float> values, float weight,
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
void LocalSgdStrategy::average_parameters(std::span<const std::size_t> buckets, float weight, bool outer,
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

void validate(const LocalSgd& options) {
  if (options.period < 0 || options.averaged_steps < 0)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("local_sgd: period is {} and averaged_steps {}", options.period, options.averaged_steps),
                {}, "They are numbers of steps; a period of 0 is an epoch.");
  if (!(std::isfinite(options.outer_lr) && options.outer_lr > 0))
    throw Error(ErrorKind::kInvalidInput, fmt::format("local_sgd: outer_lr is {}", options.outer_lr), {},
                "The outer rate is greater than 0; 1 takes the average as it is.");
  if (!(options.outer_momentum >= 0 && options.outer_momentum < 1))
    throw Error(ErrorKind::kInvalidInput, fmt::format("local_sgd: outer_momentum is {}", options.outer_momentum), {},
                "The outer momentum is at least 0 and below 1; 0 is none.");
}

}  // namespace

Traits LocalSgd::traits() const {
  return {.crosses_hosts = true, .goes_apart = true};
}

void LocalSgd::add_keys(Section& parallel) {
  constexpr double kMany = 1e15;
  parallel.field("period", &period, "local_sgd: steps from average to average; 0: an epoch.").range(0, kMany);
  parallel
      .field("averaged_steps", &averaged_steps,
             "local_sgd: so many steps at the start are averaged one by one (post-local SGD).")
      .range(0, kMany);
  parallel.field("outer_lr", &outer_lr, "local_sgd: rate of the averaged change.").range(1e-6, 10);
  parallel.field("outer_momentum", &outer_momentum, "local_sgd: momentum of the averaged change.").range(0, 0.999);
  parallel.field("average_state", &average_state,
                 "local_sgd: average the optimizer's state too; false: each worker keeps its own.");
}

StateMemory LocalSgd::memory(const StateFigures& figures) const {
  StateMemory memory = replica_memory(figures);
  // What all had at the last average, and the momentum.
  const int arrays = (figures.workers > 1 || outer_momentum > 0 ? 1 : 0) + (outer_momentum > 0 ? 1 : 0);
  memory.exchange += static_cast<std::uint64_t>(arrays) * figures.workers * figures.parameter_bytes;
  return memory;
}

std::unique_ptr<Strategy> LocalSgd::make(StrategyOptions needs) const {
  validate(*this);
  return std::make_unique<LocalSgdStrategy>(*this, std::move(needs));
}

template StrategyChoice::StrategyChoice(LocalSgd);
template LocalSgd* StrategyChoice::get();

}  // namespace muster::strategies
