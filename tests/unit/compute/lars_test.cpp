// LARS against the formula of the paper in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "muster/compute/optimizer.h"
#include "unit/compute/samples.h"

namespace muster::compute {
namespace {

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

// You, Gitman, Ginsburg 2017, algorithm 1, for one layer.
struct Paper {
  std::vector<double> w;
  std::vector<double> v;

  void step(const std::vector<float>& gradient, const Lars& options, double lr, bool adapt) {
    const std::vector<double> g(gradient.begin(), gradient.end());
    double local = 1;
    if (adapt) local = options.trust * norm(w) / (norm(g) + options.weight_decay * norm(w) + options.eps);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double move = lr * local * (g[i] + options.weight_decay * w[i]);
      v[i] = options.momentum * v[i] + move;
      w[i] -= options.nesterov ? move + options.momentum * v[i] : v[i];
    }
  }
};

// A hundred steps in single precision, each rounded by up to 6e-8, stay within 5e-6 of the largest element.
void expect_near(const std::vector<float>& ours, const std::vector<double>& paper) {
  double largest = 0;
  for (const double value : paper)
    largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < paper.size(); ++i)
    ASSERT_NEAR(ours[i], paper[i], 5e-6 * largest) << i;
}

void expect_the_paper(const Lars& options, bool adapt) {
  constexpr std::size_t kSize = 301;
  const auto optimizer = make_optimizer(options);
  std::vector<float> w = samples(kSize, 1);
  std::vector<float> v(kSize, 0.0F), w_out(kSize), v_out(kSize);
  Paper paper{{w.begin(), w.end()}, std::vector<double>(kSize, 0)};
  for (std::uint64_t number = 1; number <= 100; ++number) {
    const std::vector<float> g = samples(kSize, 1000 + number);
    const TensorStep step{10 * options.lr, options.weight_decay, adapt, number};
    const BlockInput input{w, g, {v}};
    // Two blocks, so that the ratio has to be that of the whole tensor.
    Norms norms;
    for (const std::size_t begin : {0U, 160U}) {
      const std::size_t count = begin == 0 ? 160 : kSize - 160;
      const Norms part = optimizer->norms({std::span(w).subspan(begin, count),
                                           std::span(g).subspan(begin, count),
                                           {std::span(v).subspan(begin, count)}},
                                          step);
      norms.parameters_squared += part.parameters_squared;
      norms.update_squared += part.update_squared;
    }
    optimizer->update(input, step, optimizer->trust_ratio(norms, step), {w_out, {v_out}});
    w.swap(w_out);
    v.swap(v_out);
    paper.step(g, options, 10 * options.lr, adapt);
  }
  expect_near(w, paper.w);
  expect_near(v, paper.v);
}

TEST(Lars, FollowsThePaper) {
  expect_the_paper(Lars{}, true);
  expect_the_paper(Lars{.lr = 0.5, .weight_decay = 0.05, .trust = 0.02}, true);
  expect_the_paper(Lars{.momentum = 0, .weight_decay = 0}, true);
}

TEST(Lars, NesterovLooksOneMomentumAhead) {
  expect_the_paper(Lars{.nesterov = true}, true);
}

TEST(Lars, ExemptTensorsAreNotAdapted) {
  expect_the_paper(Lars{.lr = 1e-3}, false);
}

TEST(Lars, RatioIsThatOfTheFormula) {
  const auto optimizer = make_optimizer(Lars{.trust = 0.01, .eps = 0.5});
  EXPECT_DOUBLE_EQ(optimizer->trust_ratio({16, 9}, {.weight_decay = 0.25}), 0.01 * 4 / (3 + 0.25 * 4 + 0.5));
}

TEST(Lars, RatioIsOneWhereThereIsNothingToCompare) {
  const auto optimizer = make_optimizer(Lars{});
  EXPECT_EQ(optimizer->trust_ratio({0, 9}, {}), 1);
  EXPECT_EQ(optimizer->trust_ratio({16, 0}, {}), 1);
  EXPECT_EQ(optimizer->trust_ratio({16, 9}, {.adapt = false}), 1);
}

TEST(Lars, NormsSeeTheClippedGradient) {
  const auto optimizer = make_optimizer(Lars{});
  const std::vector<float> w{3, 4}, g{2, 2}, v{0, 0};
  const Norms norms = optimizer->norms({w, g, {v}, 0.5F}, {});
  EXPECT_EQ(norms.parameters_squared, 25);
  EXPECT_EQ(norms.update_squared, 2);
}

}  // namespace
}  // namespace muster::compute
