// Who keeps what: every portion on as many hosts as were asked for, on different ones, and little moves when hosts come
// and go. Counted here by brute force.
#include "muster/data/copy_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace muster::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<CopyMember> hosts(int count) {
  std::vector<CopyMember> made;
  for (int i = 0; i < count; ++i)
    made.push_back({"host-" + std::to_string(i), static_cast<std::uint64_t>(i + 1)});
  return made;
}

TEST(Portions, EveryPieceIsInOneOfThem) {
  for (const std::vector<std::uint64_t>& pieces :
       {std::vector<std::uint64_t>{2}, {1}, {1, 1}, {8, 1, 3}, {70'000, 2, 65'537}, {200'001}}) {
    const Portions portions(pieces);
    const std::uint64_t all = std::accumulate(pieces.begin(), pieces.end(), std::uint64_t{0}) - pieces.size();
    EXPECT_LE(portions.count(), 65536 + pieces.size());
    std::uint64_t seen = 0;
    for (std::uint64_t portion = 0; portion < portions.count(); ++portion) {
      const PieceRun run = portions.pieces(portion);
      ASSERT_GT(run.count, 0U);
      for (std::uint64_t piece = run.first; piece < run.first + run.count; ++piece)
        ASSERT_EQ(portions.of({run.shard, piece}), portion);
      seen += run.count;
    }
    EXPECT_EQ(seen, all);
  }
}

TEST(CopyPlan, EveryPortionIsOnAsManyDifferentHostsAsWereAskedFor) {
  for (const int count : {1, 2, 3, 7}) {
    for (const std::uint32_t copies : {1U, 2U, 3U}) {
      const CopyPlan plan = plan_copies("data", 1000, copies, hosts(count), {});
      std::size_t kept = 0;
      for (const std::vector<std::uint32_t>& holders : plan.holders) {
        EXPECT_EQ(std::set<std::uint32_t>(holders.begin(), holders.end()).size(), holders.size());
        ASSERT_THAT(holders, SizeIs(std::min<std::size_t>(copies, static_cast<std::size_t>(count))));
      }
      for (std::uint32_t member = 0; member < static_cast<std::uint32_t>(count); ++member)
        kept += plan.portions_of(member).size();
      EXPECT_EQ(kept, 1000 * std::min<std::size_t>(copies, static_cast<std::size_t>(count)));
    }
  }
}

TEST(CopyPlan, WithTwoCopiesAnyHostMayBeLost) {
  const CopyPlan plan = plan_copies("data", 500, 2, hosts(4), {});
  for (std::uint32_t lost = 0; lost < 4; ++lost)
    for (const std::vector<std::uint32_t>& holders : plan.holders)
      EXPECT_TRUE(std::ranges::any_of(holders, [&](std::uint32_t host) { return host != lost; }));
}

TEST(CopyPlan, AHostThatComesMovesAboutItsOwnPart) {
  const CopyPlan before = plan_copies("data", 4096, 1, hosts(7), {});
  const CopyPlan after = plan_copies("data", 4096, 1, hosts(8), {});
  int moved = 0;
  for (std::size_t portion = 0; portion < 4096; ++portion)
    moved += before.holders[portion] == after.holders[portion] ? 0 : 1;
  EXPECT_GT(moved, 4096 / 16);
  EXPECT_LT(moved, 4096 / 4);
  EXPECT_NE(before.id, after.id);
}

TEST(CopyPlan, AHostThatComesBackUnderAnotherNumberHoldsTheSame) {
  std::vector<CopyMember> back = hosts(3);
  back[2].number = 9;
  const CopyPlan before = plan_copies("data", 300, 2, hosts(3), {});
  const CopyPlan after = plan_copies("data", 300, 2, back, {});
  EXPECT_EQ(before.holders, after.holders);
  EXPECT_NE(before.id, after.id) << "what it says it has it says anew";
}

TEST(CopyPlan, HostsOfOneNameAreTwo) {
  std::vector<CopyMember> same = hosts(2);
  same[1].name = same[0].name;
  for (const std::vector<std::uint32_t>& holders : plan_copies("data", 50, 2, same, {}).holders)
    EXPECT_THAT(holders, SizeIs(2));
}

TEST(CopyPlan, WhereLanesHaveTheirOwnSamplesAHostHasAllThatItsLanesRead) {
  std::vector<CopyMember> members = hosts(3);
  members[0].last_lane = 2;
  members[1].first_lane = 2;
  members[1].last_lane = 3;
  members[2].first_lane = 3;
  members[2].last_lane = 4;
  // Portion 30 is read by two lanes of different hosts; 90 to 99 by none.
  const auto range = [](std::uint64_t first, std::uint64_t last) {
    std::vector<std::uint64_t> portions(last - first);
    std::iota(portions.begin(), portions.end(), first);
    return portions;
  };
  const LanePortions lanes{range(0, 20), range(20, 31), range(30, 60), range(60, 90)};
  const CopyPlan plan = plan_copies("data", 100, 2, members, lanes);
  for (std::size_t lane = 0; lane < 4; ++lane) {
    const std::uint32_t host = lane < 2 ? 0 : static_cast<std::uint32_t>(lane - 1);
    for (const std::uint64_t portion : lanes[lane])
      EXPECT_THAT(plan.holders[portion], Contains(host));
  }
  EXPECT_THAT(plan.holders[30], ElementsAre(0, 1)) << "two have it already";
  EXPECT_EQ(plan.holders[70][0], 2U) << "the primary is who reads it";
  for (const std::vector<std::uint32_t>& holders : plan.holders)
    EXPECT_THAT(holders, SizeIs(2));
  EXPECT_THAT(plan.reason, HasSubstr("2 copies of each of 100 portions on 3 hosts, by the lanes"));
  members[1].last_lane = 2;
  EXPECT_NE(plan_copies("data", 100, 2, members, lanes).id, plan.id);
  EXPECT_EQ(plan_copies("data", 100, 2, members, {}).id, plan_copies("data", 100, 2, hosts(3), {}).id)
      << "lanes count only where they have samples of their own";
}

}  // namespace
}  // namespace muster::data
