// Parts of a split hold every sample once and depend on the seed alone.
#include "muster/data/subset.h"

#include <limits>
#include <set>

#include "support.h"

namespace muster::data {
namespace {

TEST(Subset, ReadsTheSamplesOfItsRange) {
  const auto dataset = std::make_shared<Counting>(10);
  const Permutation order(10, 4, 0);
  const Subset subset(dataset, order, 3, 8);
  EXPECT_EQ(subset.size(), 5U);
  EXPECT_EQ(subset.spec().shape, dataset->spec().shape);
  std::vector<float> features(2);
  for (std::uint64_t id = 0; id < 5; ++id) {
    const std::uint64_t original = order(3 + id);
    EXPECT_EQ(subset.original(id), original);
    EXPECT_EQ(subset.read(id, features), static_cast<std::int64_t>(original % 3));
    EXPECT_EQ(features[0], static_cast<float>(original));
  }
}

TEST(SubsetDeathTest, ASampleOfAnotherPartStopsTheProgram) {
  const Subset subset(std::make_shared<Counting>(10), Permutation(10, 4, 0), 3, 8);
  EXPECT_DEATH(subset.original(5), "beyond the subset");
}

TEST(Split, EverySampleIsInExactlyOnePart) {
  for (const std::uint64_t size : {2, 3, 10, 101, 1000}) {
    for (const double fraction : {0.0, 0.001, 0.1, 0.5, 0.999}) {
      const Split parts = split(std::make_shared<Counting>(size), fraction, 5);
      std::multiset<std::uint64_t> seen;
      for (const auto& part : {parts.train, parts.validation}) {
        for (std::uint64_t id = 0; id < part->size(); ++id)
          seen.insert(part->original(id));
      }
      EXPECT_EQ(seen.size(), size);
      EXPECT_EQ(std::set<std::uint64_t>(seen.begin(), seen.end()).size(), size);
      EXPECT_GE(parts.train->size(), 1U);
      EXPECT_EQ(parts.validation->size() == 0, fraction == 0.0);
    }
  }
}

TEST(Split, HoldsOutTheNearestNumber) {
  EXPECT_EQ(split(std::make_shared<Counting>(1000), 0.1, 0).validation->size(), 100U);
  EXPECT_EQ(split(std::make_shared<Counting>(15), 0.1, 0).validation->size(), 2U);
}

TEST(Split, DependsOnTheSeedAlone) {
  const auto held_out = [](std::uint64_t seed) {
    const Split parts = split(std::make_shared<Counting>(100), 0.2, seed);
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = 0; id < parts.validation->size(); ++id)
      ids.push_back(parts.validation->original(id));
    return ids;
  };
  EXPECT_EQ(held_out(1), held_out(1));
  EXPECT_NE(held_out(1), held_out(2));
}

TEST(Split, RefusesImpossibleFractions) {
  for (const double fraction : {-0.1, 1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto error = error_of([&] { split(std::make_shared<Counting>(10), fraction, 0); });
    ASSERT_TRUE(error) << fraction;
    EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  }
  for (const std::uint64_t size : {0, 1}) {
    const auto error = error_of([&] { split(std::make_shared<Counting>(size), 0.5, 0); });
    ASSERT_TRUE(error);
    EXPECT_NE(error->remedy().find("data.validation = 0"), std::string::npos) << error->what();
    EXPECT_FALSE(error_of([&] { split(std::make_shared<Counting>(size), 0.0, 0); }));
  }
}

}  // namespace
}  // namespace muster::data
