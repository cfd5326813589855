// What is said when, with a clock that is turned by hand.
#include "muster/trainer/checkpoint_alarm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(CheckpointAlarm, SaysNothingWhileAllIsWell) {
  CheckpointAlarm alarm;
  EXPECT_EQ(alarm.attempted(1, "", ""), std::nullopt);
  EXPECT_EQ(alarm.standing(), "");
}

TEST(CheckpointAlarm, SpeaksAtOnceThenNowAndThenAndWhenItIsOver) {
  FakeClock clock;
  CheckpointAlarm alarm(clock, std::chrono::minutes(5));
  EXPECT_THAT(alarm.attempted(10, "step-10: disk full", "disk full"),
              Optional(HasSubstr("checkpoint of step 10 was not written: step-10: disk full; training goes on")));
  EXPECT_EQ(alarm.attempted(20, "step-20: disk full", "disk full"), std::nullopt);
  EXPECT_EQ(alarm.standing(), "no checkpoint was written since step 10 (2 attempts): step-20: disk full");
  clock.advance(std::chrono::minutes(5));
  EXPECT_THAT(alarm.attempted(30, "step-30: disk full", "disk full"),
              Optional(AllOf(HasSubstr("step 30"), HasSubstr("nor any since step 10"))));
  EXPECT_EQ(alarm.attempted(40, "step-40: disk full", "disk full"), std::nullopt);
  EXPECT_THAT(alarm.attempted(50, "", ""), Optional(HasSubstr("written again, from step 50")));
  EXPECT_EQ(alarm.attempted(60, "", ""), std::nullopt);
  EXPECT_EQ(alarm.standing(), "");
}

TEST(CheckpointAlarm, SpeaksWhenTheReasonChangesOrItComesBack) {
  const FakeClock clock;
  CheckpointAlarm alarm(clock);
  EXPECT_NE(alarm.attempted(1, "full", "full"), std::nullopt);
  EXPECT_THAT(alarm.attempted(2, "read-only", "read-only"), Optional(HasSubstr("read-only")));
  EXPECT_NE(alarm.attempted(3, "", ""), std::nullopt);
  EXPECT_THAT(alarm.attempted(4, "read-only", "read-only"), Optional(HasSubstr("step 4 was not written: read-only")));
}

}  // namespace
}  // namespace muster::trainer
