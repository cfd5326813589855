// Every float of every tensor is in exactly one block, for sizes around that of a block.
#include "muster/model/flat_layout.h"

#include <gtest/gtest.h>

namespace muster::model {
namespace {

TEST(FlatLayout, OfNothingIsEmpty) {
  const FlatLayout layout(std::vector<TensorInfo>{});
  EXPECT_EQ(layout.size(), 0u);
  EXPECT_EQ(layout.parameter_count(), 0u);
  EXPECT_TRUE(layout.tensors().empty());
  EXPECT_TRUE(layout.blocks().empty());
}

TEST(FlatLayout, TensorsStandInReverseOrderOnAlignedPlaces) {
  const FlatLayout layout({{"first", {3, 5}, true}, {"scalar", {}, false}, {"last", {16}, true}});
  ASSERT_EQ(layout.tensors().size(), 3u);
  EXPECT_EQ(layout.tensors()[0].name, "last");
  EXPECT_EQ(layout.tensors()[0].offset, 0u);
  EXPECT_EQ(layout.tensors()[1].name, "scalar");
  EXPECT_EQ(layout.tensors()[1].offset, 16u);
  EXPECT_EQ(layout.tensors()[1].count, 1u);
  EXPECT_FALSE(layout.tensors()[1].trainable);
  EXPECT_EQ(layout.tensors()[2].name, "first");
  EXPECT_EQ(layout.tensors()[2].shape, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(layout.tensors()[2].offset, 32u);
  EXPECT_EQ(layout.size(), 48u);
  EXPECT_EQ(layout.parameter_count(), 32u);
}

TEST(FlatLayout, AnEmptyTensorTakesNoPlaceAndNoBlock) {
  const FlatLayout layout({{"a", {7}, true}, {"empty", {4, 0}, true}});
  EXPECT_EQ(layout.tensors()[0].count, 0u);
  EXPECT_EQ(layout.tensors()[1].offset, 0u);
  EXPECT_EQ(layout.size(), 16u);
  ASSERT_EQ(layout.blocks().size(), 1u);
  EXPECT_EQ(layout.blocks()[0].tensor, 1u);
}

class BlocksOfOneTensor : public ::testing::TestWithParam<std::uint64_t> {};

// Every float of every tensor in exactly one block, blocks full but for a tensor's last, padding in none.
TEST_P(BlocksOfOneTensor, CoverEveryFloatOnce) {
  const std::uint64_t count = GetParam();
  const FlatLayout layout({{"b", {static_cast<std::int64_t>(count)}, true}, {"a", {5}, true}});
  std::vector<int> covered(layout.size(), 0);
  for (const Block& block : layout.blocks()) {
    const TensorSlot& tensor = layout.tensors()[block.tensor];
    EXPECT_EQ(block.begin % kAlignmentFloats, 0u);
    EXPECT_GT(block.size(), 0u);
    EXPECT_TRUE(block.size() == kBlockFloats || block.end == tensor.offset + tensor.count);
    EXPECT_GE(block.begin, tensor.offset);
    EXPECT_LE(block.end, tensor.offset + tensor.count);
    for (std::uint64_t i = block.begin; i < block.end; ++i)
      ++covered[i];
  }
  std::vector<int> expected(layout.size(), 0);
  for (const TensorSlot& tensor : layout.tensors()) {
    for (std::uint64_t i = 0; i < tensor.count; ++i)
      ++expected[tensor.offset + i];
  }
  EXPECT_EQ(covered, expected);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlocksOfOneTensor,
                         ::testing::Values(0, 1, 17, kBlockFloats - 1, kBlockFloats, kBlockFloats + 1,
                                           3 * kBlockFloats + 7));

TEST(FlatLayoutDeathTest, ANegativeExtentIsABug) {
  EXPECT_DEATH(FlatLayout({{"a", {2, -1}, true}}), "negative extent");
}

}  // namespace
}  // namespace muster::model
