// Deadlines on a clock that is turned by hand, up to the end of time.
#include "muster/base/deadline.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(Deadline, PassesAtItsInstantAndNotBefore) {
  FakeClock clock;
  const Deadline deadline = Deadline::after(seconds(2), clock);
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.remaining(), seconds(2));
  clock.advance(seconds(2) - nanoseconds(1));
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.remaining(), nanoseconds(1));
  clock.advance(nanoseconds(1));
  EXPECT_TRUE(deadline.passed());
}

TEST(Deadline, RemainingIsNeverNegative) {
  FakeClock clock;
  const Deadline deadline = Deadline::after(seconds(1), clock);
  clock.advance(seconds(100));
  EXPECT_EQ(deadline.remaining(), nanoseconds(0));
}

TEST(Deadline, OfNoOrNegativeTimeHasPassed) {
  FakeClock clock;
  EXPECT_TRUE(Deadline::after(nanoseconds(0), clock).passed());
  EXPECT_TRUE(Deadline::after(seconds(-5), clock).passed());
  EXPECT_EQ(Deadline::after(nanoseconds::min(), clock).remaining(), nanoseconds(0));
}

TEST(Deadline, CopiesReadTheSameClock) {
  FakeClock clock;
  const Deadline first = Deadline::after(seconds(3), clock);
  const Deadline second = first;
  clock.advance(seconds(3));
  EXPECT_TRUE(second.passed());
  EXPECT_EQ(first.instant(), second.instant());
}

TEST(Deadline, OfTheLongestTimeNeverPasses) {
  FakeClock clock;
  clock.advance(seconds(1000));  // now + the longest time is past what an instant can hold
  const Deadline deadline = Deadline::after(nanoseconds::max(), clock);
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(deadline.remaining(), std::chrono::hours(24 * 365 * 100));
  EXPECT_FALSE(Deadline::after(nanoseconds::max()).passed());
}

}  // namespace
}  // namespace muster
