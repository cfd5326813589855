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
  EXPECT_FALSE(seconds_left({}, {}, {5, 5, 5, 5, 5}, 10));
}

TEST(BudgetTest, TheTimeLeftGoesByTheRateSoFar) {
  EXPECT_DOUBLE_EQ(*seconds_left({.trials = 10}, {}, {.trials = 4, .ended = 2}, 30), 120);
  EXPECT_FALSE(seconds_left({.trials = 10}, {}, {.trials = 4}, 30));
  EXPECT_DOUBLE_EQ(*seconds_left({.trials = 10, .seconds = 50}, {}, {.trials = 4, .seconds = 30, .ended = 2}, 30), 20);
  EXPECT_DOUBLE_EQ(*seconds_left({.epochs = 40}, {}, {.trials = 4, .epochs = 10}, 30), 90);
}

// What was spent before the study was resumed was not spent in this time.
TEST(BudgetTest, TheTimeLeftOfAResumedStudyIsThatOfWhatIsLeft) {
  EXPECT_DOUBLE_EQ(*seconds_left({.trials = 60}, {.trials = 30, .ended = 30}, {.trials = 42, .ended = 40}, 100), 200);
  EXPECT_DOUBLE_EQ(*seconds_left({.epochs = 100}, {.epochs = 50}, {.epochs = 60}, 10), 40);
}

}  // namespace
}  // namespace muster::tuning
