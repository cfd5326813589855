// A bijection for every size, even by statistics, and with the bits of the first release.
#include "muster/data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace muster::data {
namespace {

std::vector<std::uint64_t> order(const Permutation& permutation) {
  std::vector<std::uint64_t> values(permutation.size());
  for (std::uint64_t i = 0; i < values.size(); ++i)
    values[i] = permutation(i);
  return values;
}

// Standard deviations of a chi-square statistic above its mean: about normal, so 6 is one in a billion.
double excess(const std::vector<std::uint64_t>& counts, double expected, double degrees) {
  double chi_square = 0;
  for (const std::uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    chi_square += difference * difference / expected;
  }
  return (chi_square - degrees) / std::sqrt(2 * degrees);
}

class Bijection : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Bijection, EveryElementAppearsOnce) {
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint64_t> values = order(Permutation(GetParam(), 42, epoch));
    std::sort(values.begin(), values.end());
    for (std::uint64_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], i);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Bijection,
                         ::testing::Values(0, 1, 2, 3, 4, 5, 7, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 99, 100, 101,
                                           127, 128, 129, 1023, 1024, 1025, 4097, 65535, 65536, 65537, 100003, 262143,
                                           262145));

TEST(Permutation, EverySizeUpToThreeHundredIsABijection) {
  for (std::uint64_t size = 0; size <= 300; ++size) {
    const std::vector<std::uint64_t> values = order(Permutation(size, size, 0));
    EXPECT_EQ(std::set<std::uint64_t>(values.begin(), values.end()).size(), size);
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [&](std::uint64_t value) { return value < size; }));
  }
}

TEST(Permutation, EpochSeedAndPurposeGiveOtherOrders) {
  const auto base = order(Permutation(1000, 1, 0));
  EXPECT_EQ(order(Permutation(1000, 1, 0)), base);
  for (const auto& other : {order(Permutation(1000, 1, 1)), order(Permutation(1000, 2, 0)),
                            order(Permutation(1000, StreamKey{.seed = 1, .purpose = Purpose::kSplit}))}) {
    std::uint64_t equal = 0;
    for (std::size_t i = 0; i < base.size(); ++i)
      equal += base[i] == other[i] ? 1 : 0;
    EXPECT_LT(equal, 10U);  // two random orders agree in one place on average
  }
}

TEST(Permutation, AllOrdersOfAFewSamplesAreEquallyLikely) {
  for (std::uint64_t size = 2; size <= 6; ++size) {
    std::uint64_t orders = 1;
    for (std::uint64_t i = 2; i <= size; ++i)
      orders *= i;
    const std::uint64_t expected = 100;
    std::map<std::vector<std::uint64_t>, std::uint64_t> counts;
    for (std::uint64_t epoch = 0; epoch < orders * expected; ++epoch)
      ++counts[order(Permutation(size, 5, epoch))];
    ASSERT_EQ(counts.size(), orders);
    std::vector<std::uint64_t> list;
    for (const auto& [values, count] : counts)
      list.push_back(count);
    EXPECT_LT(excess(list, expected, static_cast<double>(orders - 1)), 6) << size << " samples";
  }
}

TEST(Permutation, EveryPositionMeetsEveryElementEquallyOften) {
  for (const std::uint64_t size : {7, 10, 16, 33, 100}) {
    const std::uint64_t expected = 100;
    std::vector<std::uint64_t> counts(size * size, 0);
    for (std::uint64_t epoch = 0; epoch < size * expected; ++epoch) {
      const Permutation permutation(size, 9, epoch);
      for (std::uint64_t i = 0; i < size; ++i)
        ++counts[i * size + permutation(i)];
    }
    const auto degrees = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(excess(counts, static_cast<double>(expected), degrees), 6) << size << " samples";
  }
}

// Neighbours in the order must not be neighbours in the data: samples of a class often are. Above 2^16
// samples, where there are fewer rounds.
TEST(Permutation, DistancesOfNeighboursAreSpreadEvenly) {
  const std::uint64_t size = 1000003;
  const std::uint64_t buckets = 64;
  const std::uint64_t pairs = 200000;
  std::vector<std::uint64_t> counts(buckets * buckets, 0);
  const Permutation permutation(size, 3, 0);
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const std::uint64_t a = permutation(2 * i);
    const std::uint64_t b = permutation(2 * i + 1);
    ++counts[a * buckets / size * buckets + b * buckets / size];
  }
  const double expected = static_cast<double>(pairs) / (buckets * buckets);
  EXPECT_LT(excess(counts, expected, buckets * buckets - 1), 6);
}

TEST(Permutation, ABillionSamplesNeedNoTable) {
  const std::uint64_t size = 1000000000;
  const Permutation permutation(size, 11, 2);
  std::set<std::uint64_t> seen;
  std::vector<std::uint64_t> counts(100, 0);
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const std::uint64_t value = permutation(i * 9973 % size);
    ASSERT_LT(value, size);
    seen.insert(value);
    ++counts[value / (size / 100)];
  }
  EXPECT_EQ(seen.size(), 100000U);
  EXPECT_LT(excess(counts, 1000, 99), 6);
}

TEST(Permutation, TheLargestSizesWork) {
  for (const std::uint64_t size :
       {(std::uint64_t{1} << 32) + 1, (std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 63}) {
    const Permutation permutation(size, 1, 1);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      seen.insert(permutation(i));
      seen.insert(permutation(size - 1 - i));
    }
    EXPECT_EQ(seen.size(), 2000U);
    EXPECT_LT(*seen.rbegin(), size);
    EXPECT_GT(*seen.rbegin(), size / 4 * 3);
  }
}

// The bits are part of every job's result: whoever changes them changes what users trained.
TEST(Permutation, BitsAreTheOnesOfTheFirstRelease) {
  EXPECT_EQ(order(Permutation(10, 1, 0)), (std::vector<std::uint64_t>{2, 1, 0, 3, 4, 5, 7, 9, 8, 6}));
  EXPECT_EQ(order(Permutation(10, 1, 1)), (std::vector<std::uint64_t>{3, 6, 4, 1, 7, 2, 9, 5, 8, 0}));
  const Permutation large(1000000000, 7, 3);
  const std::vector<std::uint64_t> some{large(0), large(1), large(123456789), large(999999999)};
  EXPECT_EQ(some, (std::vector<std::uint64_t>{891703975, 258099391, 393514148, 991333932}));
}

TEST(PermutationDeathTest, APositionBeyondTheEndStopsTheProgram) {
  EXPECT_DEATH(Permutation(3, 1, 0)(3), "beyond the permutation");
  EXPECT_DEATH(Permutation(0, 1, 0)(0), "beyond the permutation");
}

}  // namespace
}  // namespace muster::data
