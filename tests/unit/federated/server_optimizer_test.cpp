// What the server does with a mean change, against the papers' formulas, two rounds by hand.
#include "muster/federated/server_optimizer.h"

#include <cmath>

#include <gtest/gtest.h>

namespace muster::federated {
namespace {

// One number; changes 0.5, then -0.25.
float after_two_rounds(const std::string& kind) {
  Options options;
  options.server = kind;
  options.server_lr = 0.1;
  options.server_momentum = 0.9;
  options.server_beta2 = 0.99;
  options.server_tau = 0.01;
  ServerOptimizer server(options, 1);
  std::vector<float> model{1};
  for (const float change : {0.5F, -0.25F})
    server.apply(std::vector<float>{change}, model);
  return model[0];
}

constexpr double kNear = 1e-6;

TEST(ServerOptimizer, AveragesAddTheChange) {
  EXPECT_NEAR(after_two_rounds("average"), 1 + 0.1 * 0.25, kNear);
}

TEST(ServerOptimizer, MomentumIsThatOfHsuEtAl) {
  // m = 0.5, then 0.9 * 0.5 - 0.25 = 0.2
  EXPECT_NEAR(after_two_rounds("momentum"), 1 + 0.1 * 0.5 + 0.1 * 0.2, kNear);
}

// Reddi et al., algorithm 2: v starts at tau^2.
double reddi(double (*next_v)(double v, double square)) {
  double x = 1;
  double m = 0;
  double v = 1e-4;
  for (const double change : {0.5, -0.25}) {
    m = 0.9 * m + 0.1 * change;
    v = next_v(v, change * change);
    x += 0.1 * m / (std::sqrt(v) + 0.01);
  }
  return x;
}

TEST(ServerOptimizer, AdaptiveOnesAreThoseOfReddiEtAl) {
  EXPECT_NEAR(after_two_rounds("adagrad"), reddi([](double v, double s) { return v + s; }), kNear);
  EXPECT_NEAR(after_two_rounds("adam"), reddi([](double v, double s) { return 0.99 * v + 0.01 * s; }), kNear);
  EXPECT_NEAR(after_two_rounds("yogi"), reddi([](double v, double s) { return v - 0.01 * s * (v > s ? 1 : -1); }),
              kNear);
}

}  // namespace
}  // namespace muster::federated
