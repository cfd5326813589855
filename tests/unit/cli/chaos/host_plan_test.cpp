// Faults of hosts follow from their number and from who coordinates, and from nothing else.
#include "muster/cli/chaos/host_plan.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::Pair;

constexpr double kDetection = 2;

std::vector<Disturbance> many(Fault fault, int hosts, int coordinator) {
  std::vector<Disturbance> made;
  for (std::uint64_t draw = 1; draw <= 200; ++draw)
    made.push_back(disturbance_of({fault, 0, draw * 0x9e3779b97f4a7c15U}, hosts, coordinator, kDetection));
  return made;
}

TEST(HostPlanTest, TheSameNumberGivesTheSameFault) {
  for (const Fault fault : kHostFaults) {
    const Disturbance one = disturbance_of({fault, 0, 77}, 3, 1, kDetection);
    const Disturbance again = disturbance_of({fault, 5, 77}, 3, 1, kDetection);
    EXPECT_EQ(one.words, again.words);
    EXPECT_EQ(one.cuts, again.cuts);
    EXPECT_EQ(one.seconds, again.seconds);
    EXPECT_FALSE(one.words.empty());
  }
}

TEST(HostPlanTest, AHostThatIsKilledIsNotTheCoordinatorsAndEachOtherOneIsHit) {
  std::set<int> hit;
  int silent = 0;
  for (const Disturbance& made : many(Fault::kHost, 3, 1)) {
    hit.insert(made.victim);
    silent += made.silent ? 1 : 0;
    EXPECT_THAT(made.cuts, IsEmpty());
    EXPECT_THAT(made.seconds, AllOf(Ge(0.2 * kDetection), Le(3 * kDetection)));
  }
  EXPECT_THAT(hit, ElementsAre(0, 2));
  EXPECT_THAT(silent, AllOf(Ge(60), Le(140)));
}

TEST(HostPlanTest, TheCoordinatorsHostIsHitByItsOwnFaultNeverEarly) {
  for (const Disturbance& made : many(Fault::kCoordinator, 3, 2)) {
    EXPECT_EQ(made.victim, 2);
    EXPECT_FALSE(made.early) << "another one may have no state yet";
  }
}

TEST(HostPlanTest, ABriefFreezeIsOverBeforeAnybodyIsGivenUp) {
  int brief = 0;
  for (const Disturbance& made : many(Fault::kFreeze, 3, 0)) {
    brief += made.brief ? 1 : 0;
    if (made.brief) {
      EXPECT_LT(made.seconds, 0.5 * kDetection);
    }
  }
  EXPECT_THAT(brief, AllOf(Ge(30), Le(110)));
}

// Everything between parts is cut, in both directions, and nothing inside of one.
TEST(HostPlanTest, ASplitLeavesPartsAndTellsWhoIsApartFromTheCoordinator) {
  std::set<std::size_t> sizes;
  for (const Disturbance& made : many(Fault::kSplit, 3, 1)) {
    EXPECT_THAT(made.apart, Not(Contains(1)));
    EXPECT_GT(made.seconds, kDetection) << "both sides notice";
    sizes.insert(made.cuts.size());
    for (const auto& [from, to] : made.cuts)
      EXPECT_THAT(made.cuts, Contains(Pair(to, from)));
    for (const int host : made.apart)
      EXPECT_THAT(made.cuts, Contains(Pair(host, 1)));
  }
  EXPECT_THAT(sizes, ElementsAre(4, 6)) << "2|1 and 1|1|1";
}

TEST(HostPlanTest, OfManyHostsSomeStayTogether) {
  for (const Disturbance& made : many(Fault::kSplit, 5, 0)) {
    EXPECT_THAT(made.cuts.size(), AllOf(Ge(8U), Le(20U)));
    EXPECT_FALSE(made.apart.empty());
  }
}

TEST(HostPlanTest, OneWayIsOneWay) {
  std::set<std::pair<int, int>> ways;
  for (const Disturbance& made : many(Fault::kOneWay, 3, 0)) {
    ASSERT_EQ(made.cuts.size(), 1U);
    EXPECT_NE(made.cuts[0].first, made.cuts[0].second);
    EXPECT_THAT(made.apart, IsEmpty());
    ways.insert(made.cuts[0]);
  }
  EXPECT_EQ(ways.size(), 6U);
}

TEST(HostPlanTest, WithoutALinkTheOthersAreApartFromACoordinatorThatHasNone) {
  for (const Disturbance& made : many(Fault::kLink, 3, 0)) {
    if (made.victim == 0) {
      EXPECT_THAT(made.apart, ElementsAre(1, 2));
    } else {
      EXPECT_THAT(made.apart, ElementsAre(made.victim));
    }
  }
}

}  // namespace
}  // namespace muster::cli
