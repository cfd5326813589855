// The Gaussian process against what must hold of any: it goes through its points, is sure there and unsure far away,
// and finds out which key matters.
#include "muster/tuning/searchers/gaussian_process.h"

#include <cmath>

#include <gtest/gtest.h>

#include "muster/tuning/quasi_random.h"

namespace muster::tuning {
namespace {

TEST(GaussianProcessTest, GoesThroughItsPointsAndPredictsBetween) {
  const Space space({Parameter::uniform("a", 0, 1), Parameter::uniform("b", 0, 1)});
  const QuasiRandom sobol(2, 1);
  const auto truth = [](const std::vector<double>& x) { return std::sin(6 * x[0]) + 0.0 * x[1]; };
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 40; ++i) {
    rows.push_back(sobol.point(i));
    values.push_back(truth(rows.back()));
  }
  const GaussianProcess model(space, rows, values);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(model.predict(rows[i]).mean, values[i], 0.01);
    EXPECT_LT(model.predict(rows[i]).deviation, 0.05);
  }
  for (std::uint64_t i = 100; i < 120; ++i)
    EXPECT_NEAR(model.predict(sobol.point(i)).mean, truth(sobol.point(i)), 0.1);
  EXPECT_GT(model.length_scales()[1], 3 * model.length_scales()[0]);  // b does not matter
}

TEST(GaussianProcessTest, IsUnsureFarAway) {
  const Space space({Parameter::uniform("a", 0, 1)});
  const GaussianProcess model(space, {{0.0}, {0.05}, {0.1}, {0.15}}, {0.0, 1.0, -1.0, 0.5});
  EXPECT_GT(model.predict({1.0}).deviation, 5 * model.predict({0.05}).deviation);
  EXPECT_NEAR(model.predict({1.0}).mean, 0.0, 0.3);
}

TEST(GaussianProcessTest, KnowsChoicesAndKeysThatAreNotActive) {
  const Space space({Parameter::choice("c", {"x", "y"}), Parameter::uniform("a", 0, 1).only_when("c", {"x"})});
  const double none = std::nan("");
  const GaussianProcess model(space, {{0.25, 0.0}, {0.25, 0.5}, {0.25, 1.0}, {0.75, none}, {0.75, none}},
                              {-1.0, -0.9, -1.1, 1.0, 1.05});
  EXPECT_LT(model.predict({0.25, 0.7}).mean, -0.5);
  EXPECT_GT(model.predict({0.75, none}).mean, 0.7);
}

}  // namespace
}  // namespace muster::tuning
