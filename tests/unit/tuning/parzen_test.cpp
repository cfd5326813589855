// A Parzen estimator is a distribution: its density integrates to one, and draws follow it.
#include "muster/tuning/searchers/parzen.h"

#include <cmath>

#include <gtest/gtest.h>

#include "muster/tuning/encoded.h"

namespace muster::tuning {
namespace {

const double kNone = std::nan("");

Parzen estimator(const Space& space, const std::vector<std::vector<double>>& rows) {
  std::vector<std::span<const double>> spans(rows.begin(), rows.end());
  std::vector<std::size_t> keys;
  for (std::size_t i = 0; i < space.size(); ++i)
    keys.push_back(i);
  return Parzen(space, keys, spans, std::vector<double>(rows.size(), 1.0), {});
}

TEST(ParzenTest, TheDensityOfRealNumbersIntegratesToOne) {
  const Space space({Parameter::uniform("a", 0, 1), Parameter::log_uniform("b", 1, 10)});
  const std::vector<std::vector<double>> rows = {{0.1, 0.9}, {0.15, 0.2}, {0.99, 0.5}};
  const Parzen parzen = estimator(space, rows);
  constexpr int kFine = 200;
  double sum = 0.0;
  for (int i = 0; i < kFine; ++i) {
    for (int j = 0; j < kFine; ++j)
      sum += std::exp(parzen.log_density({(i + 0.5) / kFine, (j + 0.5) / kFine}));
  }
  EXPECT_NEAR(sum / kFine / kFine, 1.0, 1e-3);
}

// All assignments of a space with choices, steps and a condition: probabilities that sum to one, and frequencies of
// draws.
TEST(ParzenTest, ProbabilitiesUnderConditionsSumToOneAndAreDrawn) {
  const Space space({Parameter::choice("c", {"a", "b", "d"}), Parameter::integer("i", 1, 4).only_when("c", {"a"}),
                     Parameter::log_integer("l", 1, 3).only_when("c", {"b"})});
  const std::vector<std::vector<double>> rows = {
      {0.5 / 3, 0.875, kNone}, {1.5 / 3, kNone, 0.9}, {0.5 / 3, 0.625, kNone}};
  const Parzen parzen = estimator(space, rows);
  std::vector<Assignment> all;
  for (std::int64_t i = 1; i <= 4; ++i)
    all.push_back({{"c", "a"}, {"i", i}});
  for (std::int64_t l = 1; l <= 3; ++l)
    all.push_back({{"c", "b"}, {"l", l}});
  all.push_back({{"c", "d"}});
  std::vector<double> expected;
  double sum = 0.0;
  for (const Assignment& one : all) {
    expected.push_back(std::exp(parzen.log_density(encode(space, one))));
    sum += expected.back();
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
  EXPECT_GT(expected[3], expected[0]);  // 4 was seen, 1 was not
  constexpr int kDraws = 20000;
  std::vector<int> seen(all.size());
  RandomStream random({.seed = 1});
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<double> units(space.size(), kNone);
    Assignment chosen;
    parzen.sample(random, units, chosen);
    const auto found = std::find(all.begin(), all.end(), *space.fit(chosen));
    ASSERT_NE(found, all.end()) << chosen.text();
    ++seen[static_cast<std::size_t>(found - all.begin())];
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double deviation = std::sqrt(kDraws * expected[i] * (1 - expected[i]));
    EXPECT_NEAR(seen[i], kDraws * expected[i], 5 * deviation) << all[i].text();
  }
}

TEST(ParzenTest, WithoutObservationsItIsThePrior) {
  const Space space({Parameter::choice("c", {"a", "b"})});
  EXPECT_NEAR(estimator(space, {}).log_density({0.25}), std::log(0.5), 1e-12);
}

}  // namespace
}  // namespace muster::tuning
