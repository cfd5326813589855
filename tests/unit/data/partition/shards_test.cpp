// Every sample is in one shard, for numbers that need no table.
#include "muster/data/partition/shards.h"

#include <algorithm>
#include <set>

#include "support.h"

namespace muster::data {
namespace {

void expect_every_sample_once(const Shards& shards) {
  std::vector<int> seen(shards.samples());
  for (std::uint64_t shard = 0; shard < shards.count(); ++shard) {
    for (std::uint64_t i = 0; i < shards.size(shard); ++i)
      ++seen.at(shards.sample(shard, i));
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
}

TEST(Shards, EverySampleIsInExactlyOneConsecutiveShard) {
  for (const std::uint64_t samples : {0, 1, 5, 64, 1000, 1001}) {
    for (const std::uint64_t count : {1, 2, 7, 64}) {
      const Shards shards = Shards::consecutive(samples, count);
      expect_every_sample_once(shards);
      const std::vector<double> sizes = shards.sizes();
      EXPECT_EQ(sizes.size(), count);
      EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) - *std::min_element(sizes.begin(), sizes.end()), 1);
      EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
    }
  }
}

TEST(Shards, AreComputedForAnyNumberOfSamples) {
  const std::uint64_t many = std::uint64_t{1} << 50;
  const Shards shards = Shards::consecutive(many + 3, 1 << 10);
  EXPECT_EQ(shards.sample(1023, shards.size(1023) - 1), many + 2);
}

TEST(Shards, ListedShardsHoldWhatTheListSays) {
  const std::vector<std::uint32_t> shard_of{2, 0, 2, 3, 0, 2};
  const Shards shards = Shards::listed(shard_of, 5);
  expect_every_sample_once(shards);
  EXPECT_EQ(shards.sizes(), (std::vector<double>{2, 0, 3, 1, 0}));
  EXPECT_EQ(shards.sample(2, 1), 2U);
  EXPECT_EQ(shards.sample(0, 1), 4U);
}

}  // namespace
}  // namespace muster::data
