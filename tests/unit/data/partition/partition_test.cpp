// Every policy places every shard, twice the same, and can be drawn.
#include "muster/data/partition/partition.h"

#include <algorithm>
#include <numeric>

#include "muster/data/partition/label_shards.h"
#include "muster/data/partition/partition_picture.h"
#include "support.h"

namespace muster::data {
namespace {

using Policy = PartitionOptions::Policy;

TEST(ParsePartition, KnowsThePolicies) {
  EXPECT_EQ(parse_partition("consecutive").policy, Policy::kConsecutive);
  EXPECT_EQ(parse_partition("stratified").policy, Policy::kStratified);
  EXPECT_EQ(parse_partition("dirichlet:0.3").alpha, 0.3);
  EXPECT_EQ(parse_partition("file:/a/b:c").file, "/a/b:c");
  for (const char* word : {"", "hsah", "hash:1", "dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:nan",
                           "dirichlet:1x", "file", "file:"}) {
    EXPECT_TRUE(error_of([&] { parse_partition(word); })) << word;
  }
  EXPECT_NE(std::string(error_of([] { parse_partition("hsah"); })->what()).find("did you mean \"hash\""),
            std::string::npos);
}

TEST(PartitionLanes, EveryPolicyPlacesEveryShardOnALaneAndIsDetermined) {
  const TemporaryFolder folder;
  ::muster::testing::spill(folder.path() / "lanes", "lane0: 0-31\nlane1: 32-59\nlane2: 60-63\n# four lanes\nlane3: \n");
  const auto labels = [] {
    std::vector<std::int64_t> values(1000);
    std::iota(values.begin(), values.end(), 0);
    for (std::int64_t& value : values)
      value /= 100;
    return values;
  };
  for (const std::string& word :
       {std::string("consecutive"), std::string("random"), std::string("hash"), std::string("balanced"),
        std::string("stratified"), std::string("dirichlet:0.5"), "file:" + (folder.path() / "lanes").string()}) {
    const LaneShards cut = partition_lanes(parse_partition(word), 1000, 4, 3, labels);
    EXPECT_EQ(cut.shards.samples(), 1000U);
    EXPECT_EQ(cut.lane_of.member_of.size(), cut.shards.count());
    EXPECT_TRUE(std::all_of(cut.lane_of.member_of.begin(), cut.lane_of.member_of.end(),
                            [](std::uint32_t lane) { return lane < 4; }));
    const LaneShards again = partition_lanes(parse_partition(word), 1000, 4, 3, labels);
    EXPECT_EQ(again.lane_of, cut.lane_of) << word;
    EXPECT_EQ(again.shards.sizes(), cut.shards.sizes()) << word;
    if (word == "stratified") {
      EXPECT_LT(label_skew(cut.shards, labels()), 0.3) << "of shards with 15 samples of 10 labels";
    }
  }
}

TEST(PartitionLanes, FewSamplesMakeFewShards) {
  EXPECT_EQ(partition_lanes({}, 5, 2, 1, {}).shards.count(), 5U);
  EXPECT_EQ(partition_lanes({}, 1, 2, 1, {}).shards.count(), 2U);
  EXPECT_EQ(partition_lanes({}, 1000, 2, 1, {}).shards.count(), 2 * kShardsPerLane);
}

TEST(ReadLabels, AreThoseOfTheSamples) {
  EXPECT_EQ(read_labels(Counting(5)), (std::vector<std::int64_t>{0, 1, 2, 0, 1}));
}

TEST(DrawPartition, ShowsWhichLaneHasEachShardAndWhoComputesIt) {
  LaneShards cut{Shards::consecutive(10, 5), {.member_of = {0, 1, 1, 2, 0}}};
  EXPECT_EQ(draw_partition(cut, 3, {.workers = 2}),
            "10 samples in 5 shards on 3 lanes, computed by 2 workers\n"
            "lane 0   #...#  4 samples, worker 0\n"
            "lane 1   .##..  4 samples, worker 1\n"
            "lane 2   ...#.  2 samples, worker 0\n");
  const std::vector<std::int64_t> labels{0, 0, 0, 0, 0, 1, 1, 1, 1, 2};
  EXPECT_NE(draw_partition(cut, 3, {.labels = labels}).find("lane 1   .##..  4 samples, worker 0  by class 3 1 0\n"),
            std::string::npos);
}

TEST(DrawPartition, NeighboursShareAColumnWhereThereAreManyShards) {
  // 192 shards in 96 columns: lane 0 has both of the first column, one of the second, and lane 1 the rest.
  Placement lane_of{std::vector<std::uint32_t>(192, 1)};
  for (const std::size_t shard : {0, 1, 3})
    lane_of.member_of[shard] = 0;
  const std::string picture = draw_partition({Shards::consecutive(192, 192), lane_of}, 2, {});
  EXPECT_NE(picture.find("lane 0   #+" + std::string(94, '.') + "  3 samples"), std::string::npos) << picture;
  EXPECT_NE(picture.find("lane 1   .+" + std::string(94, '#') + "  189 samples"), std::string::npos) << picture;
}

}  // namespace
}  // namespace muster::data
