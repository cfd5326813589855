// The Sobol sequence: its polynomials, its published first points, and that it fills the cube better than chance.
#include "muster/tuning/quasi_random.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "muster/base/random.h"

namespace muster::tuning {
namespace {

// The square of the L2-star discrepancy, by Warnock's formula.
double discrepancy(const std::vector<std::vector<double>>& points) {
  const auto n = static_cast<double>(points.size());
  const std::size_t d = points.front().size();
  double single = 0.0, pairs = 0.0;
  for (const auto& x : points) {
    double product = 1.0;
    for (const double coordinate : x)
      product *= (1.0 - coordinate * coordinate) / 2.0;
    single += product;
    for (const auto& y : points) {
      double both = 1.0;
      for (std::size_t j = 0; j < d; ++j)
        both *= 1.0 - std::max(x[j], y[j]);
      pairs += both;
    }
  }
  return std::pow(3.0, -static_cast<double>(d)) - 2.0 / n * single + pairs / n / n;
}

// By brute force: x has the order 2^s - 1 in GF(2)[x] / p.
TEST(QuasiRandomTest, PolynomialsArePrimitiveAndAllOfThem) {
  std::vector<std::uint32_t> expected;
  for (int degree = 1; degree <= 7; ++degree) {
    for (std::uint32_t p = (1u << degree) | 1; p < 2u << degree; p += 2) {
      std::uint32_t residue = 1;
      std::uint32_t order = 0;
      do {
        residue <<= 1;
        if (residue >> degree & 1) residue ^= p;
        ++order;
      } while (residue != 1 && residue != 0 && order < 1u << degree);
      if (residue == 1 && order == (1u << degree) - 1) expected.push_back(p);
    }
  }
  EXPECT_EQ(primitive_polynomials(expected.size()), expected);
  EXPECT_EQ(expected.size(), 1u + 1 + 2 + 2 + 6 + 6 + 18);  // phi(2^s - 1) / s
}

// As printed by Bratley and Fox, and by everyone since.
TEST(QuasiRandomTest, TheFirstPointsAreThePublishedOnes) {
  const QuasiRandom sobol(3, std::nullopt);
  const std::vector<std::vector<double>> published = {{0, 0, 0},
                                                      {0.5, 0.5, 0.5},
                                                      {0.75, 0.25, 0.25},
                                                      {0.25, 0.75, 0.75},
                                                      {0.375, 0.375, 0.625},
                                                      {0.875, 0.875, 0.125},
                                                      {0.625, 0.125, 0.875},
                                                      {0.125, 0.625, 0.375}};
  for (std::size_t i = 0; i < published.size(); ++i)
    EXPECT_EQ(sobol.point(i), published[i]) << i;
}

// Of 2^m points each of 2^m equal intervals has one, in every dimension, plain or scrambled.
TEST(QuasiRandomTest, EveryDimensionIsStratified) {
  constexpr std::size_t kDimensions = 40;
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(7)}) {
    const QuasiRandom sobol(kDimensions, seed);
    std::vector<std::set<int>> seen(kDimensions);
    for (std::uint64_t i = 256; i < 512; ++i) {
      const std::vector<double> point = sobol.point(i);
      for (std::size_t j = 0; j < kDimensions; ++j)
        seen[j].insert(static_cast<int>(point[j] * 256));
    }
    for (std::size_t j = 0; j < kDimensions; ++j)
      EXPECT_EQ(seen[j].size(), 256u) << j;
  }
}

double discrepancy_of(const QuasiRandom& sequence) {
  std::vector<std::vector<double>> points;
  for (std::uint64_t i = 0; i < 256; ++i)
    points.push_back(sequence.point(i));
  return discrepancy(points);
}

// The figures are those of the direction numbers of Joe and Kuo (2008), computed with SciPy 1.17.
TEST(QuasiRandomTest, IsAsEvenAsThePublishedDirectionNumbers) {
  EXPECT_LT(discrepancy_of(QuasiRandom(6, std::nullopt)), 1.15 * 2.117629e-05);
  EXPECT_LT(discrepancy_of(QuasiRandom(10, std::nullopt)), 1.15 * 1.533612e-05);
}

TEST(QuasiRandomTest, ScrambledItFillsTheCubeBetterThanChance) {
  for (const std::size_t dimensions : {2u, 6u}) {
    double sum = 0.0;
    for (std::uint64_t seed = 0; seed < 5; ++seed)
      sum += discrepancy_of(QuasiRandom(dimensions, seed)) / 5;
    // What chance has on average: (2^-d - 3^-d) / n.
    const auto d = static_cast<double>(dimensions);
    EXPECT_LT(sum, (std::pow(2.0, -d) - std::pow(3.0, -d)) / 256 / 2.5) << dimensions;
  }
}

TEST(QuasiRandomTest, SeedsGiveOtherPoints) {
  EXPECT_NE(QuasiRandom(2, 1).point(0), QuasiRandom(2, 2).point(0));
  EXPECT_EQ(QuasiRandom(2, 1).point(5), QuasiRandom(2, 1).point(5));
}

}  // namespace
}  // namespace muster::tuning
