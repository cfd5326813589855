// Who is where, with all workers and with fewer.
#include "muster/pipeline/mesh.h"

#include <set>

#include <gtest/gtest.h>

namespace muster::pipeline {
namespace {

std::vector<PieceRange> one_each(std::size_t parts) {
  std::vector<PieceRange> ranges;
  for (std::size_t part = 0; part < parts; ++part)
    ranges.push_back({part, part + 1});
  return ranges;
}

TEST(Mesh, NeighboursInARowAreNeighboursInRank) {
  const Arrangement made = arrange({.data = 2, .pipeline = 3}, one_each(3), 6);
  EXPECT_EQ(made.rows, 2u);
  EXPECT_EQ(made.stages, 3u);
  EXPECT_EQ(made.position(4)->row, 1u);
  EXPECT_EQ(made.position(4)->stage, 1u);
  EXPECT_EQ(made.rank({1, 1}), 4u);
  EXPECT_FALSE(made.position(6));
}

TEST(Mesh, EveryPieceHasOneStageHoweverManyAreLeft) {
  for (std::size_t stages = 1; stages <= 5; ++stages) {
    for (std::size_t chunks = 1; chunks <= 3; ++chunks) {
      const Mesh mesh{.data = 3, .pipeline = stages, .chunks = chunks, .schedule = Schedule::kInterleaved};
      for (std::size_t members = 1; members <= mesh.workers(); ++members) {
        const Arrangement made = arrange(mesh, one_each(mesh.parts()), members);
        ASSERT_GT(made.rows, 0u);
        ASSERT_LE(made.rows * made.stages, members);
        ASSERT_EQ(made.parts.size() % made.stages, 0u);
        std::size_t next = 0;
        for (const PieceRange& part : made.parts) {
          EXPECT_EQ(part.first, next);
          EXPECT_GT(part.last, part.first);
          next = part.last;
        }
        EXPECT_EQ(next, mesh.parts());
        std::set<std::pair<std::size_t, std::size_t>> places;
        for (std::size_t rank = 0; rank < members; ++rank) {
          const std::optional<Position> place = made.position(rank);
          if (!place) continue;
          EXPECT_TRUE(places.insert({place->row, place->stage}).second);
          EXPECT_EQ(made.rank(*place), rank);
        }
        EXPECT_EQ(places.size(), made.rows * made.stages);
        EXPECT_FALSE(made.reason.empty());
      }
    }
  }
}

TEST(Mesh, MembersOfATeamAreNeighboursAndTeamsStayWhole) {
  const Mesh mesh{.data = 2, .pipeline = 2, .tensor = 3};
  EXPECT_EQ(mesh.workers(), 12u);
  const Arrangement whole = arrange(mesh, one_each(2), 12);
  const std::optional<Position> place = whole.position(10);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->row, 1u);
  EXPECT_EQ(place->stage, 1u);
  EXPECT_EQ(place->member, 1u);
  EXPECT_EQ(whole.rank(*place), 10u);
  for (std::size_t members = 1; members <= mesh.workers(); ++members) {
    const Arrangement made = arrange(mesh, one_each(2), members);
    EXPECT_EQ(made.team, 3u);
    EXPECT_EQ(made.rows, members >= 12 ? 2u : members >= 3 ? 1u : 0u);
    EXPECT_EQ(made.position(0).has_value(), members >= 3);
    EXPECT_EQ(made.stages, members >= 6 || members < 3 ? 2u : 1u);
  }
}

TEST(Mesh, FewerThanARowComputeMoreEach) {
  const Mesh mesh{.data = 1, .pipeline = 2, .chunks = 2, .schedule = Schedule::kInterleaved};
  const Arrangement alone = arrange(mesh, one_each(4), 1);
  EXPECT_EQ(alone.parts, (std::vector<PieceRange>{{0, 4}}));
  EXPECT_EQ(alone.shape(8).chunks, 1u);
  const Arrangement whole = arrange(mesh, one_each(4), 2);
  EXPECT_EQ(whole.shape(8).chunks, 2u);
  EXPECT_EQ(whole.stage_of(3), 1u);
}

}  // namespace
}  // namespace muster::pipeline
