// Against a standard map, through random insertions, erasures and rounds.
#include "muster/strategies/parameter_server/key_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "muster/base/random.h"
#include "muster/strategies/parameter_server/row_merger.h"

namespace muster::strategies {
namespace {

TEST(KeyIndex, AgreesWithAStandardMapThroughInsertionsAndErasures) {
  // Few keys and a small index: chains are long, wrap around, and gaps open in the middle of them.
  KeyIndex index;
  std::unordered_map<std::int64_t, std::uint32_t> truth;
  RandomStream random({.seed = 7});
  for (std::uint32_t turn = 0; turn < 200'000; ++turn) {
    const auto key = static_cast<std::int64_t>(random.below(60));
    const auto found = truth.find(key);
    ASSERT_EQ(index.find(key), found == truth.end() ? KeyIndex::kNone : found->second) << "turn " << turn;
    if (random.below(2) == 0) {
      const auto [number, added] = index.insert(key, turn);
      ASSERT_EQ(added, found == truth.end());
      ASSERT_EQ(number, added ? turn : found->second);
      truth.emplace(key, turn);
    } else if (found != truth.end()) {
      index.erase(key);
      truth.erase(found);
    }
    ASSERT_EQ(index.size(), truth.size());
  }
  std::unordered_map<std::int64_t, std::uint32_t> visited;
  index.for_each([&](std::int64_t key, std::uint32_t number) { visited.emplace(key, number); });
  EXPECT_EQ(visited, truth);
}

TEST(KeyIndex, ForgetsEverythingWhenCleared) {
  KeyIndex index;
  for (std::uint32_t round = 0; round < 5; ++round) {
    EXPECT_EQ(index.size(), 0u);
    for (std::int64_t key = 0; key < 100; ++key)
      EXPECT_EQ(index.find(key), KeyIndex::kNone);
    for (std::int64_t key = 0; key < 100; ++key)
      index.insert(key, round);
    EXPECT_EQ(index.find(99), round);
    index.clear();
  }
}

TEST(KeyIndex, FindsExtremeKeys) {
  KeyIndex index;
  const std::vector<std::int64_t> keys{std::numeric_limits<std::int64_t>::min(), -1, 0, 1,
                                       std::numeric_limits<std::int64_t>::max()};
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(index.find(keys[i]), KeyIndex::kNone);
    index.insert(keys[i], i);
  }
  for (std::uint32_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(index.find(keys[i]), i);
}

TEST(RowMerger, AddsRowsOfEqualKeysInTheOrderInWhichTheyCame) {
  // 1e8 + 1 - 1e8 is 0 in floats from left to right; any other order gives 1.
  const std::vector<std::int64_t> keys{5, -3, 5, 9, 5};
  const std::vector<float> gradients{1e8f, 1, 2, 3, 1, 10, 4, 5, -1e8f, 100};
  const MergedRows merged = merge_duplicates(keys, gradients, 2);
  EXPECT_EQ(merged.keys, (std::vector<std::int64_t>{5, -3, 9}));
  EXPECT_EQ(merged.gradients, (std::vector<float>{0, 111, 2, 3, 4, 5}));
}

TEST(RowMerger, SaysWhereEachPositionFindsItsRow) {
  RowMerger merger;
  for (int turn = 0; turn < 2; ++turn) {  // a second batch knows nothing of the first
    merger.merge_keys(std::vector<std::int64_t>{8, 7, 8, 7, 6});
    EXPECT_EQ(std::vector<std::int64_t>(merger.keys().begin(), merger.keys().end()),
              (std::vector<std::int64_t>{8, 7, 6}));
    EXPECT_EQ(std::vector<std::uint32_t>(merger.slots().begin(), merger.slots().end()),
              (std::vector<std::uint32_t>{0, 1, 0, 1, 2}));
    EXPECT_EQ(std::vector<std::uint32_t>(merger.first_positions().begin(), merger.first_positions().end()),
              (std::vector<std::uint32_t>{0, 1, 4}));
  }
}

TEST(RowMerger, ABatchThatComesAgainIsMergedAsBefore) {
  RowMerger merger;
  const std::vector<std::int64_t> first{4, 9, 4};
  const std::vector<std::int64_t> second{9, 9, 4};
  const std::vector<std::int64_t> nothing;
  const std::vector<float> gradients{1, 2, 3};
  const std::vector<float> others{10, 20, 30};
  const auto merged = [&](const std::vector<std::int64_t>& keys, const std::vector<float>& rows) {
    merger.merge_keys(keys);
    const std::span<const float> sums = merger.merge_rows(rows, 1);
    return std::pair(std::vector<std::int64_t>(merger.keys().begin(), merger.keys().end()),
                     std::vector<float>(sums.begin(), sums.end()));
  };
  using Expected = std::pair<std::vector<std::int64_t>, std::vector<float>>;
  EXPECT_EQ(merged(first, gradients), (Expected{{4, 9}, {4, 2}}));
  EXPECT_EQ(merged(first, others), (Expected{{4, 9}, {40, 20}}));
  EXPECT_EQ(merged(second, gradients), (Expected{{9, 4}, {3, 3}}));
  EXPECT_EQ(merged(nothing, {}), Expected());
  EXPECT_EQ(merged(nothing, {}), Expected());
  EXPECT_EQ(merged(first, gradients), (Expected{{4, 9}, {4, 2}}));
}

TEST(RowMerger, LeavesABatchWithoutDuplicatesWhereItIs) {
  RowMerger merger;
  const std::vector<std::int64_t> keys{1, 2};
  const std::vector<float> gradients{1, 2, 3, 4};
  merger.merge_keys(keys);
  EXPECT_EQ(merger.merge_rows(gradients, 2).data(), gradients.data());
  merger.merge_keys({});
  EXPECT_TRUE(merger.keys().empty());
  EXPECT_TRUE(merger.merge_rows({}, 2).empty());
}

}  // namespace
}  // namespace muster::strategies
