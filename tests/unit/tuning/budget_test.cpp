// What a study may spend.
#include "muster/tuning/budget.h"

#include <gtest/gtest.h>

namespace muster::tuning {
namespace {

TEST(BudgetTest, TheFirstLimitThatIsReachedEndsTheStudy) {
  const Budget budget{.trials = 10, .epochs = 100, .processor_seconds = 50, .seconds = 20};
  EXPECT_FALSE(judge(budget, {9, 99, 49.9, 19.9}).over);
  EXPECT_TRUE(judge(budget, {10, 0, 0, 0}).over);
  EXPECT_FALSE(judge(budget, {10, 0, 0, 0}).at_once);
  EXPECT_TRUE(judge(budget, {0, 100, 0, 0}).over);
  EXPECT_FALSE(judge(budget, {0, 100, 0, 0}).at_once);
  EXPECT_TRUE(judge(budget, {0, 0, 50, 0}).at_once);
  EXPECT_TRUE(judge(budget, {0, 0, 0, 20}).at_once);
}

TEST(BudgetTest, WithoutALimitNothingIsOver) {
  EXPECT_FALSE(judge({}, {1000000, 1000000, 1e9, 1e9}).over);
  EXPECT_FALSE(seconds_left({}, {5, 5, 5, 5}, 5, 10));
}

TEST(BudgetTest, TheTimeLeftGoesByTheRateSoFar) {
  EXPECT_DOUBLE_EQ(*seconds_left({.trials = 10}, {4, 0, 0, 0}, 2, 30), 120);
  EXPECT_FALSE(seconds_left({.trials = 10}, {4, 0, 0, 0}, 0, 30));
  EXPECT_DOUBLE_EQ(*seconds_left({.trials = 10, .seconds = 50}, {4, 0, 0, 30}, 2, 30), 20);
  EXPECT_DOUBLE_EQ(*seconds_left({.epochs = 40}, {4, 10, 0, 0}, 2, 30), 90);
}

}  // namespace
}  // namespace muster::tuning
