// Every sample in one lane, for all small shapes and for numbers at the edge of 64 bits.
#include "muster/data/lane_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace muster::data {
namespace {

std::vector<BatchShape> matrix() {
  std::vector<BatchShape> shapes;
  for (const std::uint64_t samples : {1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 100, 257}) {
    for (const std::uint64_t batch : {1, 2, 3, 8, 31, 32, 33, 64, 300}) {
      for (const std::uint64_t lanes : {1, 2, 3, 4, 5, 8, 16, 31}) {
        if (lanes <= batch) shapes.push_back({samples, batch, lanes});
      }
    }
  }
  return shapes;
}

TEST(LanePlan, EverySampleOfAnEpochIsInExactlyOneLane) {
  for (const BatchShape& shape : matrix()) {
    SCOPED_TRACE(::testing::Message() << shape.samples << " samples, batch " << shape.batch << ", lanes "
                                      << shape.lanes);
    std::vector<int> used(shape.samples, 0);
    Cursor cursor{.epoch = 3, .position = 0, .step = 17};
    std::uint64_t steps = 0;
    while (cursor.epoch == 3) {
      const StepPlan plan = plan_step(cursor, shape);
      for (const LaneRange& lane : plan.lanes) {
        for (std::uint64_t position = lane.begin; position < lane.end; ++position)
          ++used.at(position);
      }
      EXPECT_EQ(plan.at, cursor);
      EXPECT_EQ(plan.next.step, cursor.step + 1);
      EXPECT_GT(plan.next, cursor);
      cursor = plan.next;
      ++steps;
    }
    EXPECT_EQ(cursor.epoch, 4U);
    EXPECT_EQ(cursor.position, 0U);
    EXPECT_TRUE(std::all_of(used.begin(), used.end(), [](int times) { return times == 1; }));
    EXPECT_EQ(steps, steps_per_epoch(shape));
    EXPECT_EQ(plan_step(cursor_at_step(steps - 1, shape), shape).lanes.size(), fewest_lanes(shape));
  }
}

TEST(LanePlan, LaneSizesDifferByAtMostOneAndWeightsSumToOne) {
  for (const BatchShape& shape : matrix()) {
    for (Cursor cursor; cursor.epoch == 0;) {
      const StepPlan plan = plan_step(cursor, shape);
      std::uint64_t smallest = plan.samples();
      std::uint64_t largest = 0;
      std::uint64_t sum = 0;
      double weight = 0;
      for (std::size_t i = 0; i < plan.lanes.size(); ++i) {
        smallest = std::min(smallest, plan.lanes[i].size());
        largest = std::max(largest, plan.lanes[i].size());
        sum += plan.lanes[i].size();
        weight += plan.weight(i);
      }
      EXPECT_LE(largest - smallest, 1U);
      EXPECT_GE(smallest, 1U);
      EXPECT_EQ(sum, plan.samples());
      EXPECT_EQ(sum, std::min(shape.batch, shape.samples - cursor.position));
      EXPECT_NEAR(weight, 1.0, 1e-12);
      cursor = plan.next;
    }
  }
}

TEST(LanePlan, FullBatchesHaveAllLanesAndShortOnesNoLaneOfASingleSample) {
  for (const BatchShape& shape : matrix()) {
    for (Cursor cursor; cursor.epoch == 0;) {
      const StepPlan plan = plan_step(cursor, shape);
      if (plan.samples() == shape.batch) {
        EXPECT_EQ(plan.lanes.size(), shape.lanes);
      } else {
        EXPECT_LE(plan.lanes.size(), shape.lanes);
        if (plan.samples() > 1) {
          for (const LaneRange& lane : plan.lanes)
            EXPECT_GE(lane.size(), 2U);
        }
      }
      cursor = plan.next;
    }
  }
}

TEST(LanePlan, AShortBatchHasLanesOfAboutTheUsualLength) {
  const auto lanes_of_last = [](std::uint64_t samples, std::uint64_t batch, std::uint64_t lanes) {
    return plan_step({.epoch = 0, .position = batch, .step = 1}, {batch + samples, batch, lanes}).lanes.size();
  };
  EXPECT_EQ(lanes_of_last(1, 128, 4), 1U);
  EXPECT_EQ(lanes_of_last(32, 128, 4), 1U);
  EXPECT_EQ(lanes_of_last(33, 128, 4), 2U);
  EXPECT_EQ(lanes_of_last(96, 128, 4), 3U);
  EXPECT_EQ(lanes_of_last(127, 128, 4), 4U);
  EXPECT_EQ(lanes_of_last(7, 8, 8), 3U);  // ceil(7) lanes would be of one sample each
  EXPECT_EQ(lanes_of_last(3, 8, 8), 1U);
}

TEST(LanePlan, LongerLanesComeFirst) {
  const StepPlan plan = plan_step({}, {.samples = 10, .batch = 10, .lanes = 4});
  EXPECT_EQ(plan.lanes, (std::vector<LaneRange>{{0, 3}, {3, 6}, {6, 8}, {8, 10}}));
}

TEST(LanePlan, TheBatchMayGrowWithinAnEpoch) {
  const StepPlan first = plan_step({}, {.samples = 100, .batch = 32, .lanes = 4});
  const StepPlan second = plan_step(first.next, {.samples = 100, .batch = 64, .lanes = 4});
  EXPECT_EQ(second.lanes.front().begin, 32U);
  EXPECT_EQ(second.next, (Cursor{.epoch = 0, .position = 96, .step = 2}));
}

TEST(LanePlan, CursorAtStepAgreesWithWalkingThere) {
  for (const BatchShape& shape : matrix()) {
    Cursor cursor;
    for (std::uint64_t step = 0; step < 3 * steps_per_epoch(shape) + 1; ++step) {
      EXPECT_EQ(cursor_at_step(step, shape), cursor);
      cursor = plan_step(cursor, shape).next;
    }
  }
}

TEST(LanePlan, HugeNumbersDoNotOverflow) {
  const std::uint64_t huge = std::uint64_t{1} << 62;
  const StepPlan plan = plan_step({.epoch = 0, .position = huge, .step = 1}, {huge * 2 - 2, huge, 64});
  EXPECT_EQ(plan.lanes.size(), 64U);
  EXPECT_EQ(plan.samples(), huge - 2);
  EXPECT_EQ(plan.next.epoch, 1U);
}

TEST(DefaultLanes, ArePowersOfTwoThatLeaveThirtyTwoSamples) {
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> expected = {
      {1, 1},   {32, 1},  {63, 1},   {64, 2},    {127, 2},   {128, 4},
      {255, 4}, {256, 8}, {512, 16}, {2047, 32}, {2048, 64}, {std::uint64_t{1} << 40, 64}};
  for (const auto& [batch, lanes] : expected)
    EXPECT_EQ(default_lanes(batch), lanes) << "batch " << batch;
}

TEST(LanePlanDeathTest, MoreLanesThanSamplesInABatchStopTheProgram) {
  EXPECT_DEATH(plan_step({}, {.samples = 10, .batch = 2, .lanes = 3}), "at least one sample a lane");
  EXPECT_DEATH(steps_per_epoch({.samples = 0, .batch = 2, .lanes = 1}), "no steps");
}

}  // namespace
}  // namespace muster::data
