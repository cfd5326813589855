// The tests' own way of waiting (support/eventually.h), on a clock that is turned by hand: it says when nothing came.
#include "support/eventually.h"

#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"

namespace muster {
namespace {

TEST(Eventually, EndsWhenItIsSo) {
  int looks = 0;
  EXPECT_TRUE(testing::eventually([&] { return ++looks == 3; }));
  EXPECT_EQ(looks, 3);
}

TEST(Eventually, SaysThatItNeverWas) {
  FakeClock clock;
  int looks = 0;
  const auto never = [&] {
    clock.advance(std::chrono::seconds(1));
    ++looks;
    return false;
  };
  EXPECT_FALSE(testing::eventually(never, Deadline::after(std::chrono::seconds(3), clock)));
  EXPECT_EQ(looks, 4) << "once more when the deadline has passed";
}

TEST(Eventually, LooksOnceWhereTheDeadlineHasPassed) {
  EXPECT_TRUE(testing::eventually([] { return true; }, Deadline::after(std::chrono::seconds(0))));
  EXPECT_FALSE(testing::eventually([] { return false; }, Deadline::after(std::chrono::seconds(0))));
}

}  // namespace
}  // namespace muster
