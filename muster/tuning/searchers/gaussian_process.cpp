// The marginal likelihood of a Gaussian process with its gradient, and what follows from the best of it.
// The scale is profiled out: for given length scales and noise its best value is known in closed form.
#include "muster/tuning/searchers/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/check.h"

namespace muster::tuning {
namespace {

constexpr double kPriorLength = 0.5, kPriorLengthSpread = 1.0;
constexpr double kPriorNoise = 1e-4, kPriorNoiseSpread = 2.0;
constexpr double kLeastNoise = 1e-6;

double matern(double squared) {
  const double r = std::sqrt(5.0 * squared);
  return (1.0 + r + r * r / 3.0) * std::exp(-r);
}

}  // namespace

GaussianProcess::GaussianProcess(const Space& space, const std::vector<std::vector<double>>& rows,
                                 std::vector<double> values)
    : rows_(rows), values_(std::move(values)) {
  for (std::size_t key = 0; key < space.size(); ++key) {
    const Parameter& parameter = space.parameters()[key];
    choices_.push_back(parameter.kind == Kind::kChoice ? parameter.choices.size() : 0);
  }
  for (std::size_t key = 0; key < choices_.size(); ++key) {
    std::vector<double>& apart = apart_.emplace_back();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j)
        apart.push_back(squared_distance(rows_[i], rows_[j], key));
    }
  }
  fit();
}

double GaussianProcess::squared_distance(const std::vector<double>& a, const std::vector<double>& b,
                                         std::size_t key) const {
  const bool no_a = std::isnan(a[key]);
  const bool no_b = std::isnan(b[key]);
  if (no_a && no_b) return 0.0;
  const double left = no_a ? 0.5 : a[key];
  const double right = no_b ? 0.5 : b[key];
  const double along = choices_[key] > 0 ? (left != right ? 1.0 : 0.0) : (left - right) * (left - right);
  return along + (no_a != no_b ? 1.0 : 0.0);
}

// Minus the logarithm of the posterior at (log lengths..., log noise), with its gradient; leaves the factor and alpha
// of these parameters behind. Infinite if the matrix is not positive definite.
double GaussianProcess::evaluate(const std::vector<double>& logs, std::vector<double>* gradient) {
  const std::size_t n = rows_.size();
  const std::size_t keys = choices_.size();
  std::vector<double> inverse_squares(keys);
  for (std::size_t key = 0; key < keys; ++key)
    inverse_squares[key] = std::exp(-2.0 * logs[key]);
  const double noise = kLeastNoise + std::exp(logs[keys]);
  std::vector<double> squared(n * (n - 1) / 2);
  for (std::size_t key = 0; key < keys; ++key) {
    for (std::size_t pair = 0; pair < squared.size(); ++pair)
      squared[pair] += apart_[key][pair] * inverse_squares[key];
  }
  factor_ = Matrix(n, n);
  for (std::size_t i = 0, pair = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j, ++pair)
      factor_(i, j) = matern(squared[pair]);
    factor_(i, i) = 1.0 + noise;
  }
  if (!cholesky(factor_)) return std::numeric_limits<double>::infinity();
  alpha_ = values_;
  solve_lower(factor_, alpha_);
  double fit = 1e-12;
  double log_determinant = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    fit += alpha_[i] * alpha_[i];
    log_determinant += 2.0 * std::log(factor_(i, i));
  }
  solve_lower_transposed(factor_, alpha_);
  scale_ = fit / static_cast<double>(n);
  noise_ = noise;
  double objective = 0.5 * (static_cast<double>(n) * std::log(scale_) + log_determinant);
  for (std::size_t i = 0; i <= keys; ++i)
    objective += 0.5 * std::pow(prior_distance(i, logs[i]), 2.0);
  if (gradient != nullptr) *gradient = gradient_at(logs, squared, inverse_squares);
  return objective;
}

// How many deviations of its prior a logarithm lies off; the last one is the noise.
double GaussianProcess::prior_distance(std::size_t i, double log) const {
  const bool length = i < choices_.size();
  return (log - std::log(length ? kPriorLength : kPriorNoise)) / (length ? kPriorLengthSpread : kPriorNoiseSpread);
}

// With W = K^-1 - alpha alpha^T / scale the gradient is half the sum of W times the kernel's derivative.
std::vector<double> GaussianProcess::gradient_at(const std::vector<double>& logs, const std::vector<double>& squared,
                                                 const std::vector<double>& inverse_squares) const {
  const std::size_t n = rows_.size();
  const std::size_t keys = choices_.size();
  Matrix w(n, n);
  std::vector<double> column(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::fill(column.begin(), column.end(), 0.0);
    column[i] = 1.0;
    solve_lower(factor_, column);
    solve_lower_transposed(factor_, column);
    for (std::size_t j = 0; j <= i; ++j)
      w(i, j) = column[j] - alpha_[i] * alpha_[j] / scale_;
  }
  std::vector<double> gradient(keys + 1);
  for (std::size_t i = 0, pair = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j, ++pair) {
      const double r = std::sqrt(5.0 * squared[pair]);
      const double slope = w(i, j) * 5.0 / 3.0 * (1.0 + r) * std::exp(-r);
      for (std::size_t key = 0; key < keys; ++key)
        gradient[key] += slope * apart_[key][pair] * inverse_squares[key];
    }
    gradient[keys] += 0.5 * w(i, i) * std::exp(logs[keys]);
  }
  for (std::size_t i = 0; i <= keys; ++i)
    gradient[i] += prior_distance(i, logs[i]) / (i < keys ? kPriorLengthSpread : kPriorNoiseSpread);
  return gradient;
}

void GaussianProcess::fit() {
  constexpr int kSteps = 30;
  const std::size_t keys = choices_.size();
  std::vector<double> logs(keys + 1, std::log(kPriorLength));
  logs[keys] = std::log(kPriorNoise);
  std::vector<double> best = logs;
  double least = std::numeric_limits<double>::infinity();
  std::vector<double> steps(keys + 1, 0.3);
  std::vector<double> before(keys + 1);
  std::vector<double> gradient;
  for (int step = 0; step < kSteps; ++step) {
    const double objective = evaluate(logs, &gradient);
    if (!std::isfinite(objective)) break;
    if (objective < least) {
      least = objective;
      best = logs;
    }
    for (std::size_t i = 0; i <= keys; ++i) {
      const double agreement = gradient[i] * before[i];
      if (agreement > 0.0) steps[i] = std::min(steps[i] * 1.2, 1.0);
      if (agreement < 0.0) {
        steps[i] *= 0.5;
        gradient[i] = 0.0;
      }
      if (gradient[i] != 0.0) logs[i] -= std::copysign(steps[i], gradient[i]);
      logs[i] = std::clamp(logs[i], std::log(i < keys ? 0.01 : 1e-8), std::log(i < keys ? 30.0 : 1.0));
    }
    before = gradient;
  }
  // More noise, until the matrix is positive definite; at e^20 it is the identity but for rounding.
  for (int more = 0; !std::isfinite(evaluate(best, nullptr)); ++more) {
    MUSTER_CHECK(more < 50, "values of a Gaussian process are numbers");
    best[keys] += 1.0;
  }
  for (std::size_t key = 0; key < keys; ++key)
    lengths_.push_back(std::exp(best[key]));
}

GaussianProcess::Prediction GaussianProcess::predict(const std::vector<double>& row) const {
  std::vector<double> covariance(rows_.size());
  double mean = 0.0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    double squared = 0.0;
    for (std::size_t key = 0; key < choices_.size(); ++key)
      squared += squared_distance(row, rows_[i], key) / (lengths_[key] * lengths_[key]);
    covariance[i] = matern(squared);
    mean += covariance[i] * alpha_[i];
  }
  solve_lower(factor_, covariance);
  double explained = 0.0;
  for (const double c : covariance)
    explained += c * c;
  return {mean, std::sqrt(scale_ * std::max(1.0 - explained, 1e-12))};
}

}  // namespace muster::tuning
