// The clock that is turned by hand, and what the machine's own promises.
#include "muster/base/clock.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock;
  const Clock::Instant start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(milliseconds(1500));
  EXPECT_EQ(clock.now() - start, milliseconds(1500));
}

TEST(FakeClock, SleepingMovesItByTheTimeSlept) {
  const FakeClock clock;
  const Clock::Instant start = clock.now();
  clock.sleep_for(seconds(86400));  // sleeps: not at all, which is the point
  EXPECT_EQ(clock.now() - start, seconds(86400));
}

TEST(FakeClock, WallTimeMovesAlong) {
  FakeClock clock;
  const auto start = clock.wall();
  clock.advance(seconds(61));
  EXPECT_EQ(clock.wall() - start, seconds(61));
}

TEST(SystemClock, NeverGoesBack) {
  const Clock& clock = system_clock();
  Clock::Instant last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Clock::Instant next = clock.now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(SystemClock, SleepsAtLeastAsLongAsAsked) {
  const Clock& clock = system_clock();
  const Clock::Instant start = clock.now();
  clock.sleep_for(milliseconds(1));  // sleeps: what is tested
  EXPECT_GE(clock.now() - start, milliseconds(1));
}

TEST(TimeStamp, IsUtcAndSortsByTime) {
  const auto at = [](std::int64_t unix_seconds) {
    return time_stamp(std::chrono::system_clock::time_point{seconds(unix_seconds)});
  };
  EXPECT_EQ(at(0), "19700101-000000");
  EXPECT_EQ(at(951782399), "20000228-235959");
  EXPECT_EQ(at(951782400), "20000229-000000");  // a leap day
  EXPECT_EQ(at(1234567890), "20090213-233130");
  EXPECT_LT(at(1234567890), at(1234567891));
}

}  // namespace
}  // namespace muster
