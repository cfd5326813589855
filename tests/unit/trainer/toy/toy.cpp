// For models without buffers, all of whose tensors have a gradient in every lane.
#include "toy.h"

#include <utility>
#include <vector>

#include "muster/strategies/replica/bucket_reducer.h"
#include "muster/strategies/replica/replica_strategy.h"

namespace muster::strategies {
namespace {

class ToyStrategy final : public ReplicaStrategy {
 public:
  ToyStrategy(const Toy& chosen, StrategyOptions needs) : ReplicaStrategy(std::move(needs)), chosen_(chosen) {}

  StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override {
    const data::StepPlan& step = finished_step();
    const model::FlatLayout& layout = options().layout;
    std::vector<float> gradient(layout.size());
    sum_lanes(layout, own_gradients(), all_blocks(), gradient);
    group().all_reduce(std::span(gradient), comm::Reduction::kSum, deadline);
    for (float& value : gradient)
      value *= static_cast<float>(chosen_.toy_gain);
    const std::vector<std::uint8_t> marks(layout.tensors().size(), 1);
    const compute::LaneGradient sum{gradient.data(), marks.data()};
    compute::examine_slice(layout, sum, all_blocks(), next().records);
    const compute::Verdict verdict = compute::judge_step(next().records, rule.clip_norm);
    if (verdict.apply)
      compute::update_slice(layout, sum, rule, verdict, all_blocks(), current().state, next().state, {});

    std::vector<LaneResult> told;
    for (std::size_t lane = lanes_of(rank()).first; lane < lanes_of(rank()).last; ++lane)
      told.push_back(*own(lane).result);
    double loss = fold_reports(told).report.loss_sum;
    group().all_reduce(std::span(&loss, 1), comm::Reduction::kSum, deadline);
    const auto samples = static_cast<double>(step.samples());
    const StepOutcome outcome{.applied = verdict.apply,
                              .gradient_norm = verdict.gradient_norm,
                              .loss = loss / samples,
                              .samples = step.samples()};
    commit_step(verdict.apply);
    return outcome;
  }

 private:
  const Toy chosen_;
};

}  // namespace

StateMemory Toy::memory(const StateFigures& figures) const {
  return replica_memory(figures);
}

std::unique_ptr<Strategy> Toy::make(StrategyOptions needs) const {
  return std::make_unique<ToyStrategy>(*this, std::move(needs));
}

}  // namespace muster::strategies
