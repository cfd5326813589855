// Aggregation against the definitions, on cases that are small enough to be done by hand.
#include "muster/federated/aggregate.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/random.h"

namespace muster::federated {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

using Rows = std::vector<std::vector<float>>;

std::vector<std::span<const float>> views(const Rows& rows) {
  return {rows.begin(), rows.end()};
}

Rows random_rows(std::size_t count, std::size_t size) {
  RandomStream draws({.seed = 7});
  Rows rows(count, std::vector<float>(size));
  for (auto& row : rows) {
    for (float& value : row)
      value = static_cast<float>(draws.normal());
  }
  return rows;
}

TEST(Aggregate, TheMedianIsTheMiddleOneOrTheMeanOfTwo) {
  const Rows odd{{1, -5, 1e6F}, {2, 7, 3}, {100, 0, -4}};
  std::vector<float> out(3);
  coordinate_median(views(odd), out);
  EXPECT_THAT(out, ElementsAre(2, 0, 3));
  const Rows even{{1}, {2}, {4}, {1000}};
  out.resize(1);
  coordinate_median(views(even), out);
  EXPECT_THAT(out, ElementsAre(3));
  const Rows one{{-2.5F}};
  coordinate_median(views(one), out);
  EXPECT_THAT(out, ElementsAre(-2.5F));
}

TEST(Aggregate, TheTrimmedMeanLeavesOutAsManyAtEachEnd) {
  const Rows rows{{0}, {10}, {20}, {30}, {1e9F}};
  std::vector<float> out(1);
  trimmed_mean(views(rows), 0.2, out);
  EXPECT_THAT(out, ElementsAre(20));  // of 10, 20, 30
  trimmed_mean(views(rows), 0.1, out);
  EXPECT_THAT(out, ElementsAre(FloatEq((60 + 1e9F) / 5)));  // floor(0.5) = 0: all
}

// Blanchard et al. 2017: of n = 6 with f = 1 the score is the sum of the 3 smallest squared distances.
TEST(Aggregate, KrumTakesWhoLiesNearestToTheOthers) {
  const Rows rows{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {50, 50}, {0.5F, 0.5F}};
  EXPECT_THAT(choose_by_krum(views(rows), 1, 1), ElementsAre(5));        // 3 x 0.5; the corners have 0.5 + 1 + 1
  EXPECT_THAT(choose_by_krum(views(rows), 1, 3), ElementsAre(5, 0, 1));  // corners tie: by number
  std::vector<float> out(2);
  const std::vector<std::size_t> chosen{5, 0, 1};
  mean_of(views(rows), chosen, out);
  EXPECT_THAT(out, ElementsAre(0.5F, FloatEq(0.5F / 3)));
}

TEST(Aggregate, ThreadsDoNotShow) {
  const Rows rows = random_rows(9, 1001);
  std::vector<float> one(1001);
  std::vector<float> three(1001);
  coordinate_median(views(rows), one, 1);
  coordinate_median(views(rows), three, 3);
  EXPECT_EQ(one, three);
  trimmed_mean(views(rows), 0.25, one, 1);
  trimmed_mean(views(rows), 0.25, three, 3);
  EXPECT_EQ(one, three);
  EXPECT_EQ(choose_by_krum(views(rows), 2, 5, 1), choose_by_krum(views(rows), 2, 5, 4));
}

TEST(Aggregate, AnUpdateIsShortenedToTheBoundAndNoMore) {
  std::vector<float> update{3, 4};
  EXPECT_DOUBLE_EQ(clip_to(update, 5), 1);
  EXPECT_THAT(update, ElementsAre(3, 4));
  EXPECT_DOUBLE_EQ(clip_to(update, 1), 0.2);
  EXPECT_THAT(update, ElementsAre(FloatEq(0.6F), FloatEq(0.8F)));
  update[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(norm(update)));
}

}  // namespace
}  // namespace muster::federated
