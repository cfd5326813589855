// Cuts of a layout into buckets, and sums of lanes some of which are absent.
#include "muster/strategies/replica/bucket_reducer.h"

#include <cmath>

#include <gtest/gtest.h>

namespace muster::strategies {
namespace {

TEST(PlanBuckets, EveryTrainableBlockIsInOneBucketAndNoneIsTooLong) {
  const model::FlatLayout layout(
      {{"a", {100000}}, {"frozen", {50000}, false}, {"b", {3}}, {"c", {16384}}, {"d", {1}}, {"tail", {9}, false}});
  const std::size_t block_bytes = model::kBlockFloats * sizeof(float);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, block_bytes, block_bytes + 1, 3 * block_bytes,
                                  std::size_t{4} << 20, std::size_t{1} << 40}) {
    std::vector<int> covered(layout.blocks().size());
    std::uint64_t end = 0;
    for (const Bucket& bucket : plan_buckets(layout, bytes)) {
      ASSERT_LT(bucket.blocks.first, bucket.blocks.last);
      EXPECT_GE(bucket.begin, end) << "in flat order, without overlap";
      EXPECT_EQ(bucket.begin, layout.blocks()[bucket.blocks.first].begin);
      EXPECT_EQ(bucket.end, layout.blocks()[bucket.blocks.last - 1].end);
      EXPECT_TRUE((bucket.end - bucket.begin) * sizeof(float) <= bytes ||
                  bucket.blocks.last - bucket.blocks.first == 1);
      end = bucket.end;
      for (std::size_t block = bucket.blocks.first; block < bucket.blocks.last; ++block)
        ++covered[block];
    }
    for (std::size_t block = 0; block < covered.size(); ++block)
      EXPECT_EQ(covered[block], layout.tensors()[layout.blocks()[block].tensor].trainable ? 1 : 0) << block;
  }
  // Frozen tensors cut: "d", "c", "b" before "frozen", "a" after it.
  EXPECT_EQ(plan_buckets(layout, std::size_t{1} << 40).size(), 2U);
  EXPECT_TRUE(plan_buckets(model::FlatLayout({{"frozen", {5}, false}}), 100).empty());
  // Those are in buckets of their own: "tail", "frozen".
  EXPECT_EQ(plan_buckets(layout, std::size_t{1} << 40, false).size(), 2U);
}

TEST(SumLanes, LeavesOutAbsentLanesAndFillsAbsentTensorsWithNegativeZeros) {
  const model::FlatLayout layout({{"both", {5}}, {"one", {5}}, {"none", {5}}});
  // Backward order: "none", "one", "both".
  const auto at = [&](std::size_t tensor) { return layout.tensors()[tensor].offset; };
  std::vector<float> left(layout.size(), 1.0F);
  std::vector<float> right(layout.size(), 2.0F);
  left[at(1)] = -0.0F;
  const std::vector<std::uint8_t> left_marks{0, 1, 1};
  const std::vector<std::uint8_t> right_marks{0, 0, 1};
  const std::vector<compute::LaneGradient> lanes{{left.data(), left_marks.data()}, {right.data(), right_marks.data()}};
  std::vector<float> sums(layout.size(), 77.0F);
  sum_lanes(layout, lanes, {0, 3}, sums);
  EXPECT_TRUE(sums[at(0)] == 0 && std::signbit(sums[at(0)]));
  EXPECT_TRUE(sums[at(1)] == 0 && std::signbit(sums[at(1)])) << "the lane's own bits";
  EXPECT_EQ(sums[at(1) + 1], 1.0F);
  EXPECT_EQ(sums[at(2)], 3.0F);

  // No lanes at all, and a range of blocks.
  std::ranges::fill(sums, 77.0F);
  sum_lanes(layout, {}, {1, 2}, sums);
  EXPECT_EQ(sums[at(0)], 77.0F);
  EXPECT_EQ(sums[at(1)], 0.0F);
  EXPECT_EQ(sums[at(2)], 77.0F);

  // A single lane that stands where its sum goes stays as it is.
  sum_lanes(layout, std::vector<compute::LaneGradient>{{left.data(), left_marks.data()}}, {0, 3}, left);
  EXPECT_TRUE(std::signbit(left[at(0)]));
  EXPECT_EQ(left[at(2)], 1.0F);
}

}  // namespace
}  // namespace muster::strategies
