// Stratified and skewed shards measured by what they hold of each label.
#include "muster/data/partition/label_shards.h"

#include <algorithm>
#include <map>

#include "support.h"

namespace muster::data {
namespace {

// Sorted by class, as folders are: 500 of label 0, 300 of 1, 200 of 4, 7 of 9.
std::vector<std::int64_t> sorted_labels() {
  std::vector<std::int64_t> labels(500, 0);
  labels.insert(labels.end(), 300, 1);
  labels.insert(labels.end(), 200, 4);
  labels.insert(labels.end(), 7, 9);
  return labels;
}

std::uint64_t samples_seen_once(const Shards& shards) {
  std::vector<int> seen(shards.samples());
  for (std::uint64_t shard = 0; shard < shards.count(); ++shard) {
    for (std::uint64_t i = 0; i < shards.size(shard); ++i)
      ++seen.at(shards.sample(shard, i));
  }
  return static_cast<std::uint64_t>(std::count(seen.begin(), seen.end(), 1));
}

TEST(StratifiedShards, HoldTheSamePartOfEveryLabel) {
  const auto labels = sorted_labels();
  const Shards shards = stratified_shards(labels, 10, 1);
  EXPECT_EQ(samples_seen_once(shards), labels.size());
  std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>> range;  // least and most of a label in a shard
  for (std::uint64_t shard = 0; shard < 10; ++shard) {
    EXPECT_TRUE(shards.size(shard) == 100 || shards.size(shard) == 101) << shards.size(shard);
    std::map<std::int64_t, std::uint64_t> held{{0, 0}, {1, 0}, {4, 0}, {9, 0}};
    for (std::uint64_t i = 0; i < shards.size(shard); ++i)
      ++held[labels[shards.sample(shard, i)]];
    for (const auto& [label, count] : held) {
      auto [place, fresh] = range.try_emplace(label, count, count);
      place->second = {std::min(place->second.first, count), std::max(place->second.second, count)};
    }
  }
  for (const auto& [label, least_most] : range)
    EXPECT_LE(least_most.second - least_most.first, 1U) << label;
  EXPECT_LT(label_skew(shards, labels), 0.01);
}

TEST(DirichletShards, HoldEverySampleOnceAndAreSkewedMoreTheSmallerAlphaIs) {
  const auto labels = sorted_labels();
  double before = 0;
  for (const double alpha : {1000.0, 10.0, 1.0, 0.1, 0.01}) {
    double skew = 0;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Shards shards = dirichlet_shards(labels, 8, alpha, seed);
      EXPECT_EQ(samples_seen_once(shards), labels.size());
      skew += label_skew(shards, labels) / 5;
    }
    EXPECT_GT(skew, before) << alpha;
    before = skew;
    if (alpha == 1000.0) {
      EXPECT_LT(skew, 0.05);
    }
  }
  EXPECT_GT(before, 0.4);
}

TEST(DirichletShards, TheSeedDecidesAlone) {
  const auto labels = sorted_labels();
  EXPECT_EQ(dirichlet_shards(labels, 8, 0.5, 3).sizes(), dirichlet_shards(labels, 8, 0.5, 3).sizes());
  EXPECT_NE(dirichlet_shards(labels, 8, 0.5, 3).sizes(), dirichlet_shards(labels, 8, 0.5, 4).sizes());
}

TEST(LabelSkew, IsZeroForTheWholeAndNearOneForSingleLabels) {
  const std::vector<std::int64_t> labels{0, 0, 1, 1, 2, 2, 3, 3};
  EXPECT_NEAR(label_skew(Shards::consecutive(8, 1), labels), 0, 1e-12);
  EXPECT_NEAR(label_skew(Shards::consecutive(8, 4), labels), 0.75, 1e-12);
}

}  // namespace
}  // namespace muster::data
