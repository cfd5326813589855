// The accountant against published values, a closed formula, and itself.
#include "muster/federated/accountant.h"

#include <cmath>

#include <gtest/gtest.h>

namespace muster::federated {
namespace {

// Values that TensorFlow Privacy publishes in the tests of its DP-SGD privacy statement (samples, batch, noise, epochs,
// delta -> epsilon), by the same bounds.
TEST(Accountant, AgreesWithPublishedValues) {
  EXPECT_NEAR(spent_after({.noise = 1.3, .part = 150.0 / 60000}, 15 * 400, 1e-5).epsilon, 0.7242234026109595, 1e-3);
  EXPECT_NEAR(spent_after({.noise = 1.0, .part = 100.0 / 100000}, 30 * 1000, 1e-7).epsilon, 1.4154988495444845, 1e-3);
}

// Without sampling the divergence is a / (2 sigma^2), and the best order has a closed form to compare with.
TEST(Accountant, EverybodyEachRoundIsThePlainGaussian) {
  EXPECT_DOUBLE_EQ(renyi_divergence({.noise = 2, .part = 1}, 8), 1);
  const Spent spent = spent_after({.noise = 4, .part = 1}, 10, 1e-5);
  double best = 1e9;
  for (double order = 1.001; order < 100; order += 0.001)
    best = std::min(best, 10 * order / 32 + std::log1p(-1 / order) - (std::log(1e-5) + std::log(order)) / (order - 1));
  EXPECT_NEAR(spent.epsilon, best, 1e-3);
}

// The series of other orders meets the sum of whole ones.
TEST(Accountant, OrdersInBetweenAreInBetween) {
  for (const Mechanism& mechanism : {Mechanism{1.1, 0.01}, Mechanism{0.7, 0.2}, Mechanism{3, 0.5}}) {
    for (const double order : {2.0, 5.0, 9.0}) {
      const double below = renyi_divergence(mechanism, order - 1e-6);
      const double at = renyi_divergence(mechanism, order);
      const double above = renyi_divergence(mechanism, order + 1e-6);
      EXPECT_LE(below, at * (1 + 1e-5));
      EXPECT_GE(above, at * (1 - 1e-5));
      EXPECT_NEAR(below / at, 1, 1e-4);
      EXPECT_NEAR(above / at, 1, 1e-4);
    }
  }
}

TEST(Accountant, TheBudgetIsKeptToTheRound) {
  const Mechanism mechanism{.noise = 1, .part = 0.01};
  const std::uint64_t rounds = rounds_within(mechanism, 2, 1e-5);
  ASSERT_GT(rounds, 10U);
  EXPECT_LE(spent_after(mechanism, rounds, 1e-5).epsilon, 2);
  EXPECT_GT(spent_after(mechanism, rounds + 1, 1e-5).epsilon, 2);
  EXPECT_EQ(rounds_within(mechanism, 1e-6, 1e-5), 0U);
  EXPECT_EQ(spent_after(mechanism, 0, 1e-5).epsilon, 0);
}

}  // namespace
}  // namespace muster::federated
