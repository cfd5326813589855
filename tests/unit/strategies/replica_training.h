// Trains a made-up model with any strategy and any number of workers, threads with a group between them, and keeps what
// each of them ended with.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy.h"
#include "support/groups.h"

namespace muster::testing {

// Computes a lane: what a model and its backward do. The result depends on the arguments alone.
using LaneWork = std::function<void(const strategies::StrategyOptions&, const strategies::CommittedState&,
                                    const data::StepPlan&, std::size_t lane, const compute::LaneArea&)>;

struct Training {
  strategies::StrategyChoice strategy = strategies::AllReduce{};
  int workers = 1;
  Network network = Network::kShm;
  model::FlatLayout layout{};
  data::BatchShape shape{};
  std::uint64_t steps = 7;
  compute::OptimizerOptions optimizer = compute::Sgd{.lr = 0.1, .momentum = 0.9};
  std::optional<double> clip_norm{};
  strategies::Claims claims = strategies::Claims::kStatic;
  bool synchronized = false;  // the workers' states are made the same at the end
  int stop_rank = -1;         // asks to stop in its first step, and knows of change 7 there
  LaneWork work{};
  // Called by every worker after each of its steps, several at a time.
  std::function<void(int rank, const strategies::Strategy&, const strategies::StepOutcome&)> observe{};
};

// What a worker ended with, as bits: negative zeros count, and NaNs can be compared.
struct Trained {
  std::vector<float> parameters;
  std::vector<std::byte> bits;  // parameters, optimizer state, updates, buffers
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<bool> applied;

  bool operator==(const Trained& other) const {
    const auto same = [](const std::vector<double>& left, const std::vector<double>& right) {
      return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(double)) == 0;
    };
    return bits == other.bits && same(losses, other.losses) && same(norms, other.norms) && applied == other.applied;
  }
};

// A lane has no gradient of what never trains.
inline void mark_trainable(const strategies::StrategyOptions& options, const compute::LaneArea& area) {
  for (std::size_t tensor = 0; tensor < area.present.size(); ++tensor)
    area.present[tensor] = options.layout.tensors()[tensor].trainable ? 1 : 0;
}

// A gradient that depends on step, lane, position and the parameters, as a model's does.
inline void compute_lane(const strategies::StrategyOptions& options, const strategies::CommittedState& state,
                         const data::StepPlan& plan, std::size_t lane, const compute::LaneArea& area) {
  RandomStream random({.seed = 5, .step = plan.at.step, .lane = lane});
  mark_trainable(options, area);
  for (std::size_t i = 0; i < options.layout.size(); ++i)
    area.gradient[i] = 0.1F * state.parameters[i] + static_cast<float>(random.uniform() - 0.5);
  for (std::size_t byte = 0; byte < 12; byte += 4) {
    const auto mean = static_cast<float>(random.uniform());
    std::memcpy(area.buffers.data() + byte, &mean, sizeof mean);
  }
}

inline compute::BufferLayout one_mean_and_one_count() {
  compute::BufferLayout buffers;
  buffers.add("mean", model::Dtype::kF32, {3}, 12);
  buffers.add("count", model::Dtype::kI64, {}, 8);
  return buffers;
}

// The first values: only those of the first worker may count.
inline void start(strategies::Strategy& strategy, const strategies::StrategyOptions& options, int rank) {
  std::vector<float> first(options.layout.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    first[i] = rank == 0 ? static_cast<float>(i % 100) * 0.01F : -1;
  const std::vector<float> zeros(options.layout.size());
  const std::vector<std::uint64_t> updates(options.layout.tensors().size());
  const std::vector<std::byte> bytes(options.buffers.bytes);
  strategies::CommittedState initial{first, {}, updates, bytes, {}};
  for (int slot = 0; slot < options.slots; ++slot)
    initial.state[static_cast<std::size_t>(slot)] = zeros;
  strategy.restore(initial);
}

inline std::vector<std::byte> bits_of(const strategies::CommittedState& state) {
  std::vector<std::byte> bits;
  const auto append = [&](std::span<const std::byte> bytes) { bits.insert(bits.end(), bytes.begin(), bytes.end()); };
  append(std::as_bytes(state.parameters));
  for (const std::span<const float> slot : state.state)
    append(std::as_bytes(slot));
  append(std::as_bytes(state.updates));
  append(state.buffers);
  append(std::as_bytes(std::span(&state.cursor, 1)));
  return bits;
}

// What every worker ended with.
inline std::vector<Trained> train(const Training& training) {
  const auto optimizer = compute::make_optimizer(training.optimizer);
  std::vector<Trained> results(static_cast<std::size_t>(training.workers));
  run_group(training.workers, training.network, [&](int rank, comm::Group group) {
    std::vector<compute::TensorRule> rules;
    for (const model::TensorSlot& slot : training.layout.tensors())
      rules.push_back({compute::weight_decay(training.optimizer), true, slot.trainable});
    strategies::StrategyOptions options{training.layout, one_mean_and_one_count(), optimizer->slots(),
                                        training.shape.lanes, group};
    options.claims = training.claims;
    options.optimizer = training.optimizer;
    options.rules = rules;
    const auto strategy = training.strategy.make(options);
    start(*strategy, options, rank);
    const compute::UpdateRule rule{optimizer.get(), compute::base_lr(training.optimizer), training.clip_norm, rules};
    strategy->membership().meet();
    strategy->enter_generation();
    Trained& result = results[static_cast<std::size_t>(rank)];
    for (std::uint64_t step = 0; step < training.steps; ++step) {
      const strategies::CommittedState state = strategy->committed();
      const data::StepPlan plan = data::plan_step(state.cursor, training.shape);
      strategy->announce_rule(rule);
      strategy->begin_step(plan);
      while (const auto lane = strategy->claim()) {
        training.work(options, state, plan, *lane, strategy->area(*lane));
        if (strategy->uses_ready_gradients(*lane)) {
          for (std::size_t tensor = 0; tensor < options.layout.tensors().size(); ++tensor) {
            if (strategy->area(*lane).present[tensor] != 0) strategy->gradient_ready(*lane, tensor);
          }
        }
        const bool wishes = rank == training.stop_rank && step == 0;
        strategy->finish(*lane, {{.loss_sum = 0.3 * static_cast<double>(*lane + step), .score = 1},
                                 {.stop = wishes, .change = wishes ? 7U : 0U}});
      }
      const strategies::StepOutcome outcome = strategy->commit(rule, Deadline::after(std::chrono::seconds(60)));
      result.losses.push_back(outcome.loss);
      result.norms.push_back(outcome.gradient_norm);
      result.applied.push_back(outcome.applied);
      if (training.observe) training.observe(rank, *strategy, outcome);
    }
    if (training.synchronized) strategy->synchronize(Deadline::after(std::chrono::seconds(60)));
    const strategies::CommittedState state = strategy->committed();
    result.parameters.assign(state.parameters.begin(), state.parameters.end());
    result.bits = bits_of(state);
    group.barrier();
  });
  return results;
}

}  // namespace muster::testing
