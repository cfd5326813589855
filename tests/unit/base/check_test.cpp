// A broken invariant ends the process and says where.
#include "muster/base/check.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Check, LetsATrueConditionPassAndEvaluatesItOnce) {
  int evaluated = 0;
  MUSTER_CHECK(++evaluated == 1, "evaluated twice");
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckDeathTest, StopsTheProcessAndSaysWhere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int lanes = 0;
  EXPECT_EXIT(MUSTER_CHECK(lanes > 0, "a step without lanes"), ::testing::KilledBySignal(SIGABRT),
              "check_test.cpp:[0-9]+: check failed: lanes > 0: a step without lanes");
}

}  // namespace
}  // namespace muster
