#include "muster/strategies/shared_sync/shared_sync.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace muster::strategies {
namespace {

constexpr std::size_t kFloats = 4;

// One tensor of four floats and one buffer, trained by SGD with lr 1 and no momentum: w' = w - sum of lanes.
class SharedSyncTest : public ::testing::Test {
 protected:
  SharedSyncTest() {
    compute::BufferLayout buffers;
    buffers.add("mean", model::Dtype::kF32, {1}, 4);
    options_ = {model::FlatLayout({{"w", {kFloats}}}), buffers, 0, 4};
    strategy_ = make_shared_sync(options_);
    std::vector<float> first(options_.layout.size(), 0.0F);
    for (std::size_t i = 0; i < kFloats; ++i)
      first[i] = static_cast<float>(i);
    const std::vector<std::uint64_t> updates(1);
    const std::vector<std::byte> bytes(buffers.bytes);
    strategy_->restore({first, {}, updates, bytes, {}});
  }

  // Computes every lane of the plan: lane i's gradient is `gradient`(i), its buffer i.
  template <typename Gradient>
  StepOutcome step(const data::StepPlan& plan, const Gradient& gradient) {
    strategy_->begin_step(plan);
    while (const auto lane = strategy_->claim()) {
      const compute::LaneArea area = strategy_->area(*lane);
      std::fill(area.gradient.begin(), area.gradient.end(), gradient(*lane));
      area.present[0] = 1;
      const auto buffer = static_cast<float>(*lane);
      std::memcpy(area.buffers.data(), &buffer, sizeof(buffer));
      strategy_->finish(*lane, {.loss_sum = 2.0 * static_cast<double>(plan.lanes[*lane].size()), .correct = 1});
    }
    const std::vector<compute::TensorRule> rules(1);
    return strategy_->commit({optimizer_.get(), 1.0, std::nullopt, rules}, Deadline::after(std::chrono::seconds(1)));
  }

  float buffer() const {
    float value;
    std::memcpy(&value, strategy_->committed().buffers.data(), sizeof(value));
    return value;
  }

  const data::BatchShape shape_{.samples = 10, .batch = 8, .lanes = 4};
  StrategyOptions options_;
  std::unique_ptr<const compute::Optimizer> optimizer_ = compute::make_optimizer(compute::Sgd{.lr = 1});
  std::unique_ptr<Strategy> strategy_;
};

TEST_F(SharedSyncTest, AStepSumsItsLanesAndMovesEverythingTogether) {
  const data::StepPlan plan = data::plan_step({}, shape_);
  const int before = strategy_->committed_version();
  const StepOutcome outcome = step(plan, [](std::size_t lane) { return static_cast<float>(lane + 1); });
  EXPECT_TRUE(outcome.applied);
  EXPECT_EQ(outcome.samples, 8U);
  EXPECT_DOUBLE_EQ(outcome.loss, 2.0);
  EXPECT_DOUBLE_EQ(outcome.correct, 4.0);
  EXPECT_DOUBLE_EQ(outcome.gradient_norm, 20.0);  // four elements of 1 + 2 + 3 + 4
  const CommittedState state = strategy_->committed();
  EXPECT_EQ(state.parameters[0], -10.0F);
  EXPECT_EQ(state.parameters[3], -7.0F);
  EXPECT_EQ(state.cursor, plan.next);
  EXPECT_EQ(state.updates[0], 1U);
  EXPECT_EQ(buffer(), 1.5F);
  EXPECT_NE(strategy_->committed_version(), before);
  EXPECT_EQ(strategy_->parameter_versions()[static_cast<std::size_t>(strategy_->committed_version())].data(),
            state.parameters.data());
}

TEST_F(SharedSyncTest, ANonFiniteGradientAdvancesTheCursorAndKeepsTheModel) {
  const data::StepPlan plan = data::plan_step({}, shape_);
  const int before = strategy_->committed_version();
  const StepOutcome outcome =
      step(plan, [](std::size_t lane) { return lane == 2 ? std::numeric_limits<float>::quiet_NaN() : 1.0F; });
  EXPECT_FALSE(outcome.applied);
  const CommittedState state = strategy_->committed();
  EXPECT_EQ(state.parameters[3], 3.0F);
  EXPECT_EQ(state.updates[0], 0U);
  EXPECT_EQ(buffer(), 0.0F);
  EXPECT_EQ(state.cursor, plan.next);
  EXPECT_EQ(strategy_->committed_version(), before);
  // The next step applies to the kept version, not to what the skipped one left behind.
  step(data::plan_step(state.cursor, shape_), [](std::size_t) { return 1.0F; });
  EXPECT_EQ(strategy_->committed().parameters[3], 2.0F);
}

TEST_F(SharedSyncTest, AShortLastBatchUsesFewerLanes) {
  step(data::plan_step({}, shape_), [](std::size_t) { return 0.0F; });
  const data::StepPlan last = data::plan_step(strategy_->committed().cursor, shape_);
  ASSERT_EQ(last.lanes.size(), 1U);
  // What earlier steps left in the other lanes' areas does not count.
  step(last, [](std::size_t) { return 5.0F; });
  EXPECT_EQ(strategy_->committed().parameters[0], -5.0F);
  EXPECT_EQ(strategy_->committed().cursor.epoch, 1U);
}

TEST_F(SharedSyncTest, AnUnfinishedStepIsForgotten) {
  const data::StepPlan plan = data::plan_step({}, shape_);
  strategy_->begin_step(plan);
  strategy_->claim();
  std::fill_n(strategy_->area(0).gradient.begin(), kFloats, 1e30F);
  step(plan, [](std::size_t) { return 1.0F; });
  EXPECT_EQ(strategy_->committed().parameters[0], -4.0F);
}

using SharedSyncDeathTest = SharedSyncTest;

TEST_F(SharedSyncDeathTest, CommittingAnUnfinishedLaneIsABug) {
  strategy_->begin_step(data::plan_step({}, shape_));
  strategy_->claim();
  const std::vector<compute::TensorRule> rules(1);
  EXPECT_DEATH(
      strategy_->commit({optimizer_.get(), 1.0, std::nullopt, rules}, Deadline::after(std::chrono::seconds(1))),
      "not finished");
}

}  // namespace
}  // namespace muster::strategies
