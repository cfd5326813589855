// Buffers of asynchronous training: who counts is told by a simulation of its own, as simple as can be.
#include "muster/federated/buffered_plan.h"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "muster/federated/chances.h"
#include "unit/federated/quadratic.h"

namespace muster::federated {
namespace {

Options buffered(std::int64_t clients, std::int64_t buffer, std::int64_t at_a_time) {
  Options options = options_of(clients, buffer);
  options.algorithm = "fedbuff";
  options.concurrency = at_a_time;
  options.speed_spread = 1;
  return options;
}

TEST(BufferedPlan, WeighsByAgeAndNobodyTwice) {
  const Options options = buffered(40, 6, 20);
  const ClientSplit split = split_of(options);
  BufferedPlan plan(options, split, 3);
  bool old_ones = false;
  for (std::uint64_t round = 0; round < 30; ++round) {
    const RoundPlan& buffer = plan.of(round);
    ASSERT_EQ(buffer.counts.size(), 6U);
    std::set<std::uint64_t> clients;
    for (const Participant& who : buffer.counts) {
      EXPECT_TRUE(clients.insert(who.client).second) << who.client << " counts twice in round " << round;
      ASSERT_LE(who.version, round);
      EXPECT_DOUBLE_EQ(who.weight, 1 / std::sqrt(1.0 + static_cast<double>(round - who.version)));
      old_ones |= who.version < round;
      EXPECT_EQ(who.samples, 5U);
    }
    EXPECT_GE(buffer.seconds, 0);
  }
  EXPECT_TRUE(old_ones);
}

// Everybody is as fast as the others, and two train at a time: both end at once, each buffer is of the pair.
TEST(BufferedPlan, WhoIsAsFastAsTheOthersIsNeverOld) {
  Options options = buffered(10, 2, 2);
  options.speed_spread = 0;
  const ClientSplit split = split_of(options);
  BufferedPlan plan(options, split, 3);
  // The first buffer is full when both have ended; the first to be replaced began before that, with the old model.
  for (const Participant& who : plan.of(0).counts)
    EXPECT_EQ(who.version, 0U);
  for (std::uint64_t round = 1; round < 5; ++round) {
    EXPECT_EQ(plan.of(round).counts[0].version, round - 1);
    EXPECT_EQ(plan.of(round).counts[1].version, round);
    EXPECT_NEAR(plan.of(round).seconds, 0.005, 1e-12);
  }
}

// Everybody trains, so that while a buffer fills nobody is left to take a place: the places come back afterwards.
TEST(BufferedPlan, PlacesThatNobodyCouldTakeAreFilledAgain) {
  Options options = buffered(20, 5, 20);
  options.speed_spread = 0;
  const ClientSplit split = split_of(options);
  BufferedPlan plan(options, split, 3);
  double seconds = 0;
  for (std::uint64_t round = 0; round < 40; ++round)
    seconds += plan.of(round).seconds;
  EXPECT_NEAR(seconds, 40 * 5 / 20 * 0.005, 1e-9) << "twenty at a time, 0.005 s each";
}

TEST(BufferedPlan, IsAFunctionOfTheRoundAlone) {
  Options options = buffered(30, 5, 9);
  options.drop = 0.3;
  options.availability = 0.6;
  options.most_staleness = 2;
  const ClientSplit split = split_of(options);
  BufferedPlan on(options, split, 3);
  std::vector<std::uint64_t> clients;
  std::uint64_t dropped = 0;
  std::uint64_t late = 0;
  for (std::uint64_t round = 0; round < 40; ++round) {
    const RoundPlan& plan = on.of(round);
    clients.push_back(plan.counts[3].client);
    dropped += plan.dropped;
    late += plan.late;
    EXPECT_EQ(plan.asked, plan.counts.size() + plan.dropped + plan.late);
    for (const Participant& who : plan.counts)
      EXPECT_LE(round - who.version, 2U);
  }
  // About three of ten never answer: of 200 that count, 86 on average, with a deviation of 11.
  EXPECT_GT(dropped, 40U);
  EXPECT_LT(dropped, 140U);
  EXPECT_GT(late, 0U);
  BufferedPlan there(options, split, 3);
  EXPECT_EQ(there.of(39).counts[3].client, clients[39]);
  EXPECT_EQ(there.of(7).counts[3].client, clients[7]) << "back again";
}

}  // namespace
}  // namespace muster::federated
