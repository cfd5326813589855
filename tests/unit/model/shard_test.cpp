// Shards: together they are the tensor, and each is where its share says.
#include "muster/model/shard.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model {
namespace {

using ::testing::ElementsAre;

// The places of a shard's elements in the whole.
std::vector<std::int64_t> places(const Shard& shard) {
  std::vector<std::int64_t> all{shard.offset};
  for (std::size_t dimension = 0; dimension < shard.sizes.size(); ++dimension) {
    std::vector<std::int64_t> more;
    for (const std::int64_t place : all) {
      for (std::int64_t i = 0; i < shard.sizes[dimension]; ++i)
        more.push_back(place + i * shard.strides[dimension]);
    }
    all = more;
  }
  return all;
}

TEST(Share, DiffersByOneUnitAtMostAndLeavesNothingOut) {
  for (const std::int64_t unit : {1, 4}) {
    for (const std::int64_t units : {0, 1, 2, 7, 16}) {
      for (const std::size_t members : {1U, 2U, 3U, 5U}) {
        std::int64_t next = 0;
        for (std::size_t member = 0; member < members; ++member) {
          const Share share = share_of(units * unit, unit, member, members);
          EXPECT_EQ(share.first, next);
          EXPECT_EQ(share.count % unit, 0);
          const auto least = units / static_cast<std::int64_t>(members);
          EXPECT_TRUE(share.count / unit == least || share.count / unit == least + 1);
          next += share.count;
        }
        EXPECT_EQ(next, units * unit);
      }
    }
  }
}

TEST(Shard, IsARunOfRowsOrAViewWithGaps) {
  const std::vector<std::int64_t> shape{6, 4};
  const Shard rows = shard_of({"weight", 0}, shape, 1, 3);
  EXPECT_THAT(rows.sizes, ElementsAre(2, 4));
  EXPECT_EQ(rows.offset, 8);
  EXPECT_TRUE(rows.is_contiguous());
  const Shard columns = shard_of({"weight", 1}, shape, 1, 2);
  EXPECT_THAT(columns.sizes, ElementsAre(6, 2));
  EXPECT_THAT(columns.strides, ElementsAre(4, 1));
  EXPECT_EQ(columns.offset, 2);
  EXPECT_FALSE(columns.is_contiguous());
}

TEST(Shard, OfQueriesKeysAndValuesHasThoseOfItsHeads) {
  // 3 x 2 heads x 2 channels.
  const Shard second = shard_of({.name = "bias", .groups = 3, .unit = 2}, std::vector<std::int64_t>{12}, 1, 2);
  EXPECT_THAT(second.sizes, ElementsAre(3, 2));
  EXPECT_THAT(places(second), ElementsAre(2, 3, 6, 7, 10, 11));
}

TEST(Shard, AllTogetherAreTheTensor) {
  const std::vector<std::int64_t> shape{3, 12, 5};
  for (const Split& split : {Split{"x", 0}, Split{"x", 1}, Split{"x", 2}, Split{"x", 1, 3, 2}}) {
    for (const std::size_t members : {1U, 2U, 3U}) {
      std::vector<std::int64_t> all;
      for (std::size_t member = 0; member < members; ++member) {
        const Shard shard = shard_of(split, shape, member, members);
        const std::vector<std::int64_t> own = places(shard);
        EXPECT_EQ(static_cast<std::int64_t>(own.size()), shard.count());
        all.insert(all.end(), own.begin(), own.end());
      }
      std::ranges::sort(all);
      ASSERT_EQ(all.size(), 180U);
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], static_cast<std::int64_t>(i));
    }
  }
}

}  // namespace
}  // namespace muster::model
