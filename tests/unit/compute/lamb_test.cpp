// LAMB against the formula of the paper in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "muster/compute/optimizer.h"
#include "unit/compute/samples.h"

namespace muster::compute {
namespace {

// You et al. 2020, algorithm 2, for one layer, with phi the identity.
struct Paper {
  std::vector<double> w, m, v;

  void step(const std::vector<float>& g, const Lamb& options, double lr, bool adapt, double number) {
    std::vector<double> r(w.size());
    double w_squared = 0;
    double r_squared = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double gradient = g[i];
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * gradient;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * gradient * gradient;
      const double m_hat = m[i] / (1 - std::pow(options.beta1, number));
      const double v_hat = v[i] / (1 - std::pow(options.beta2, number));
      r[i] = m_hat / (std::sqrt(v_hat) + options.eps) + options.weight_decay * w[i];
      w_squared += w[i] * w[i];
      r_squared += r[i] * r[i];
    }
    const double ratio = !adapt || w_squared == 0 || r_squared == 0 ? 1 : std::sqrt(w_squared / r_squared);
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] -= lr * ratio * r[i];
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

void expect_the_paper(const Lamb& options, bool adapt, std::vector<float> w) {
  const std::size_t size = w.size();
  const std::size_t cut = size / 3;
  const auto optimizer = make_optimizer(options);
  std::vector<float> m(size, 0.0F), v(size, 0.0F), w_out(size), m_out(size), v_out(size);
  Paper paper{{w.begin(), w.end()}, std::vector<double>(size, 0), std::vector<double>(size, 0)};
  for (std::uint64_t number = 1; number <= 100; ++number) {
    const std::vector<float> g = samples(size, 1000 + number, 0.01);
    const TensorStep step{options.lr, options.weight_decay, adapt, number};
    Norms norms;
    for (const std::size_t begin : {std::size_t{0}, cut}) {
      const std::size_t count = begin == 0 ? cut : size - cut;
      const auto part = [begin, count](const std::vector<float>& whole) {
        return std::span(whole).subspan(begin, count);
      };
      const Norms sums = optimizer->norms({part(w), part(g), {part(m), part(v)}}, step);
      norms.parameters_squared += sums.parameters_squared;
      norms.update_squared += sums.update_squared;
    }
    optimizer->update({w, g, {m, v}}, step, optimizer->trust_ratio(norms, step), {w_out, {m_out, v_out}});
    w.swap(w_out);
    m.swap(m_out);
    v.swap(v_out);
    paper.step(g, options, options.lr, adapt, static_cast<double>(number));
  }
  expect_near(w, paper.w);
  expect_near(m, paper.m);
  expect_near(v, paper.v);
}

TEST(Lamb, FollowsThePaper) {
  expect_the_paper(Lamb{}, true, samples(3001, 1));
  expect_the_paper(Lamb{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.1}, true, samples(301, 1));
  expect_the_paper(Lamb{.weight_decay = 0}, true, samples(301, 1));
}

TEST(Lamb, ExemptTensorsAreNotAdapted) {
  expect_the_paper(Lamb{}, false, samples(301, 1));
}

TEST(Lamb, ATensorOfZerosLeavesZero) {
  expect_the_paper(Lamb{}, true, std::vector<float>(31, 0.0F));
}

TEST(Lamb, RatioIsThatOfTheFormula) {
  const auto optimizer = make_optimizer(Lamb{});
  EXPECT_DOUBLE_EQ(optimizer->trust_ratio({16, 9}, {}), 4.0 / 3);
  EXPECT_EQ(optimizer->trust_ratio({0, 9}, {}), 1);
  EXPECT_EQ(optimizer->trust_ratio({16, 0}, {}), 1);
  EXPECT_EQ(optimizer->trust_ratio({16, 9}, {.adapt = false}), 1);
}

}  // namespace
}  // namespace muster::compute
