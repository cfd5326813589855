// Young's formula and each of its limits, as a pure function.
#include "muster/trainer/checkpoint_interval.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::trainer {
namespace {

using ::testing::HasSubstr;

constexpr double kDay = 24 * 3600;

IntervalInputs measured(double cost, double trained = 0, std::uint64_t failures = 0) {
  return {.cost_seconds = cost, .step_seconds = 0.1, .trained_seconds = trained, .failures = failures};
}

TEST(CheckpointInterval, IsYoungsFormulaBetweenItsLimits) {
  // sqrt(2 * 0.02 s * 24 h) = 58.8 s
  const IntervalDecision decision = choose_interval(measured(0.02));
  EXPECT_DOUBLE_EQ(decision.seconds, std::sqrt(2 * 0.02 * kDay));
  EXPECT_THAT(decision.reason, HasSubstr("every 58.8 s (about 588 steps), where cost and repeated work are least"));
  EXPECT_THAT(decision.reason, HasSubstr("one costs 20 ms"));
}

TEST(CheckpointInterval, CountsFailuresAgainstThePrior) {
  // One failure assumed in a day before the job, three seen in another: a mean of half a day.
  EXPECT_DOUBLE_EQ(choose_interval(measured(0.02, kDay, 3)).seconds, std::sqrt(2 * 0.02 * kDay / 2));
  // Nine days without any: ten days.
  EXPECT_DOUBLE_EQ(choose_interval(measured(0.02, 9 * kDay, 0)).seconds, std::sqrt(2 * 0.02 * 10 * kDay));
}

TEST(CheckpointInterval, NeverTakesMoreThanAPercent) {
  // A failure every 86 s asks for sqrt(2 * 1 * 86) = 13 s; a percent allows 100 s.
  const IntervalDecision decision = choose_interval(measured(1, 0, 999));
  EXPECT_DOUBLE_EQ(decision.seconds, 100);
  EXPECT_THAT(decision.reason, HasSubstr("so that they take at most 1 % of the time"));
  for (const double cost : {1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0}) {
    for (const std::uint64_t failures : {0u, 1u, 1000u})
      EXPECT_LE(cost / choose_interval(measured(cost, 3600, failures)).seconds, 0.01 + 1e-12) << cost;
  }
}

TEST(CheckpointInterval, IsAtMostTheLongestUnlessThatCostsTooMuch) {
  const IntervalDecision longest = choose_interval(measured(5));
  EXPECT_DOUBLE_EQ(longest.seconds, 600);
  EXPECT_THAT(longest.reason, HasSubstr("10.0 min (about 6000 steps), the longest there is"));
  EXPECT_DOUBLE_EQ(choose_interval(measured(60)).seconds, 6000);
}

TEST(CheckpointInterval, IsAtLeastTheShortestAndAStep) {
  EXPECT_DOUBLE_EQ(choose_interval(measured(0)).seconds, 1);
  EXPECT_DOUBLE_EQ(choose_interval(measured(-1)).seconds, 1);
  IntervalInputs slow = measured(0.0001);
  slow.step_seconds = 30;
  EXPECT_DOUBLE_EQ(choose_interval(slow).seconds, 30);
  EXPECT_THAT(choose_interval(slow).reason, HasSubstr("(about 1 steps), the shortest there is"));
}

TEST(CheckpointInterval, BeginsWithOneThatIsMeasured) {
  const IntervalDecision decision = choose_interval({});
  EXPECT_DOUBLE_EQ(decision.seconds, 2);
  EXPECT_THAT(decision.reason, HasSubstr("not known yet"));
}

}  // namespace
}  // namespace muster::trainer
