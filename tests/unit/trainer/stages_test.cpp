// Stages: who claims and loads which lanes, where passages lie, and what schedules keep.
#include "muster/trainer/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::trainer {
namespace {

std::vector<model::PieceProfile> pieces(std::size_t count) {
  std::vector<model::PieceProfile> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back({.name = "p" + std::to_string(i), .multiply_adds = 1, .output_bytes = 4 * (i + 1)});
  return all;
}

TEST(Stages, PassagesOfALaneDoNotOverlapAndHaveRoomForIt) {
  constexpr std::uint64_t kSamples = 9;
  const Stages stages({.pipeline = 4}, pieces(6), {}, kSamples);
  std::vector<std::byte> passage(stages.passage_bytes());
  const std::byte* end = passage.data();
  for (std::size_t part = 0; part + 1 < stages.cut().size(); ++part) {
    const std::size_t piece = stages.cut()[part].last - 1;
    const std::span<std::byte> place = stages.place(passage, piece);
    EXPECT_GE(place.data(), end);
    EXPECT_EQ((place.data() - passage.data()) % 64, 0);
    EXPECT_GE(place.size(), kSamples * 4 * (piece + 1));
    end = place.data() + place.size();
  }
  EXPECT_EQ(end, passage.data() + passage.size());
}

TEST(Stages, ARowKeepsAsMuchAsItsScheduleSays) {
  // Four stages keep 4, 3, 2 and 1 lanes of a quarter of the model each, or all lanes.
  EXPECT_DOUBLE_EQ(Stages({.pipeline = 4}, pieces(4), {}, 1).lanes_kept(8), 10.0 / 4);
  const pipeline::Mesh gpipe{.data = 2, .pipeline = 4, .schedule = pipeline::Schedule::kGpipe};
  EXPECT_DOUBLE_EQ(Stages(gpipe, pieces(4), {}, 1).lanes_kept(8), 4.0);
}

TEST(Stages, HoldActivationsAsTheirScheduleSays) {
  // A lane of 10 samples: each piece keeps 100 bytes, and has 130 while it is computed; the loss has 2 x 4 x 10
  // besides.
  std::vector<model::PieceProfile> equal(4, {.name = "p", .multiply_adds = 1, .output_bytes = 4});
  const std::vector<model::PieceMemory> memory(4, {.kept = {0, 10}, .most = {30, 10}});
  const auto held = [&](const pipeline::Mesh& mesh, std::size_t lanes) {
    return Stages(mesh, equal, {}, 10).activation_bytes(memory, lanes, 10);
  };
  EXPECT_THAT(held({.pipeline = 4}, 8), ::testing::ElementsAre(430, 330, 230, 180));
  const pipeline::Mesh gpipe{.pipeline = 4, .schedule = pipeline::Schedule::kGpipe};
  EXPECT_THAT(held(gpipe, 8), ::testing::ElementsAre(830, 830, 830, 880));
  EXPECT_THAT(held({.data = 2, .pipeline = 2}, 2), ::testing::ElementsAre(230, 280));
  const std::vector<std::string> lines =
      Stages({.pipeline = 2}, equal, {}, 10).describe(std::vector<std::uint64_t>{1000, 2000});
  EXPECT_THAT(lines.at(2), ::testing::HasSubstr("holds at most 2.0 kB of activations"));
}

TEST(Stages, SaysWhereEachWorkerIs) {
  const Stages stages({.data = 2, .pipeline = 2}, pieces(4), {}, 1);
  EXPECT_THAT(stages.places(4), ::testing::ElementsAre("0.0", "0.1", "1.0", "1.1"));
  EXPECT_THAT(stages.places(3), ::testing::ElementsAre("0.0", "0.1", ""));
  EXPECT_THAT(stages.places(1), ::testing::ElementsAre("0.0"));
  const Stages teams({.data = 2, .tensor = 2}, pieces(4), {}, 1);
  EXPECT_THAT(teams.places(4), ::testing::ElementsAre("0.0.0", "0.0.1", "1.0.0", "1.0.1"));
  EXPECT_THAT(teams.places(1), ::testing::ElementsAre(""));
}

TEST(Stages, SaysWhatAMemberOfATeamHas) {
  std::vector<model::PieceProfile> all = pieces(1);
  all[0].parameter_bytes = 1000;
  all[0].divided_bytes = 800;
  const std::vector<std::string> lines = Stages({.tensor = 4}, all, {}, 1).describe();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[2],
              ::testing::AllOf(::testing::HasSubstr("400 B of the parameters"), ::testing::HasSubstr("200 B")));
}

TEST(Stages, AloneAWorkerClaimsAndLoadsEverything) {
  const Stages stages({.data = 2, .pipeline = 2}, pieces(4), {}, 1);
  const strategies::LaneShare share = stages.share({});
  EXPECT_EQ(share.count, 1U);
  EXPECT_TRUE(share.claims && share.loads);
}

}  // namespace
}  // namespace muster::trainer
