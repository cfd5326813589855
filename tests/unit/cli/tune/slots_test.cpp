// How many trials run at once.
#include "muster/cli/tune/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

constexpr std::uint64_t kGigabyte = 1000000000;

TEST(SlotsTest, AreWhatTheCoresAllowAndOneAtLeast) {
  EXPECT_EQ(decide_slots({.workers = 1, .threads = 1}, 8, kGigabyte, {}).count, 8U);
  EXPECT_EQ(decide_slots({.workers = 3, .threads = 1}, 8, kGigabyte, {}).count, 2U);
  EXPECT_EQ(decide_slots({.workers = 2, .threads = 2}, 8, kGigabyte, {}).count, 2U);
  EXPECT_EQ(decide_slots({.workers = 16, .threads = 1}, 8, kGigabyte, {}).count, 1U);
}

TEST(SlotsTest, AreWhatTheStudyAsksFor) {
  EXPECT_EQ(decide_slots({.workers = 4, .threads = 1}, 2, kGigabyte, 5).count, 5U);
}

TEST(SlotsTest, AreNoMoreThanFitIntoMemory) {
  const TrialNeeds needs{.workers = 1, .threads = 1, .bytes = 3 * kGigabyte};
  const Slots slots = decide_slots(needs, 8, 10 * kGigabyte, {});
  EXPECT_EQ(slots.count, 3U);
  EXPECT_THAT(slots.reason, ::testing::HasSubstr("memory"));
  EXPECT_EQ(decide_slots(needs, 8, 10 * kGigabyte, 6).count, 3U);
  EXPECT_EQ(decide_slots(needs, 2, 10 * kGigabyte, {}).count, 2U);
  EXPECT_EQ(decide_slots(needs, 8, kGigabyte, {}).count, 1U);
}

}  // namespace
}  // namespace muster::cli
