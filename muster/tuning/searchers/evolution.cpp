// The equations of CMA-ES. Names follow the tutorial: mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu.
// Sums run in a fixed order, so the same points give the same bits.
#include "muster/tuning/searchers/evolution.h"

#include <algorithm>
#include <cmath>

namespace muster::tuning {
namespace {

double norm(const std::vector<double>& v) {
  double sum = 0.0;
  for (const double x : v)
    sum += x * x;
  return std::sqrt(sum);
}

// The number below which a standard normal one lies with this probability, by bisection.
double normal_quantile(double probability) {
  double low = -8.0, high = 8.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle * M_SQRT1_2) < probability ? low : high) = middle;
  }
  return low;
}

}  // namespace

Evolution::Evolution(std::vector<double> mean, double sigma, std::size_t lambda, std::vector<double> floors)
    : n_(mean.size()),
      mean_(std::move(mean)),
      sigma_(sigma),
      floors_(std::move(floors)),
      covariance_(Matrix::identity(n_)),
      axes_(Matrix::identity(n_)),
      roots_(n_, 1.0),
      path_sigma_(n_),
      path_c_(n_) {
  const auto n = static_cast<double>(n_);
  double positive = 0.0, positive_squares = 0.0, negative = 0.0, negative_squares = 0.0;
  for (std::size_t i = 0; i < lambda; ++i) {
    const double w = std::log((static_cast<double>(lambda) + 1.0) / 2.0) - std::log(static_cast<double>(i + 1));
    weights_.push_back(w);
    (w > 0.0 ? positive : negative) += std::abs(w);
    (w > 0.0 ? positive_squares : negative_squares) += w * w;
  }
  mu_eff_ = positive * positive / positive_squares;
  const double mu_eff_negative = negative_squares > 0.0 ? negative * negative / negative_squares : 0.0;
  c_sigma_ = (mu_eff_ + 2.0) / (n + mu_eff_ + 5.0);
  d_sigma_ = 1.0 + 2.0 * std::max(0.0, std::sqrt((mu_eff_ - 1.0) / (n + 1.0)) - 1.0) + c_sigma_;
  c_c_ = (4.0 + mu_eff_ / n) / (n + 4.0 + 2.0 * mu_eff_ / n);
  c_1_ = 2.0 / ((n + 1.3) * (n + 1.3) + mu_eff_);
  c_mu_ = std::min(1.0 - c_1_, 2.0 * (mu_eff_ - 2.0 + 1.0 / mu_eff_) / ((n + 2.0) * (n + 2.0) + mu_eff_));
  chi_ = std::sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n));
  const double most_negative =
      std::min({1.0 + c_1_ / std::max(c_mu_, 1e-12), 1.0 + 2.0 * mu_eff_negative / (mu_eff_ + 2.0),
                (1.0 - c_1_ - c_mu_) / std::max(n * c_mu_, 1e-12)});
  for (double& w : weights_)
    w *= w > 0.0 ? 1.0 / positive : most_negative / negative;
}

double Evolution::deviation(std::size_t i) const {
  return sigma_ * std::sqrt(covariance_(i, i));
}

std::vector<double> Evolution::sample(const std::vector<double>& even, RandomStream& random) const {
  std::vector<double> point(n_);
  for (int attempt = 0; attempt < 50; ++attempt) {
    std::vector<double> z(n_);
    for (std::size_t k = 0; k < n_; ++k)
      z[k] = roots_[k] * (attempt == 0 ? normal_quantile(even[k]) : random.normal());
    bool inside = true;
    for (std::size_t i = 0; i < n_; ++i) {
      double step = 0.0;
      for (std::size_t k = 0; k < n_; ++k)
        step += axes_(i, k) * z[k];
      point[i] = mean_[i] + sigma_ * step;
      inside = inside && point[i] >= 0.0 && point[i] <= 1.0;
    }
    if (inside) return point;
  }
  for (double& x : point)
    x = std::clamp(x, 0.0, 1.0);
  return point;
}

Evolution::Batch Evolution::measured(const std::vector<std::vector<double>>& points) const {
  const auto n = static_cast<double>(n_);
  const double longest = std::sqrt(n) + 2.0 * n / (n + 2.0);
  Batch batch{{}, {}, std::vector<double>(n_), std::vector<double>(n_)};
  std::vector<double> whitened(n_);  // the mean's step in the coordinates of the axes
  for (std::size_t place = 0; place < points.size(); ++place) {
    std::vector<double> y(n_);
    for (std::size_t i = 0; i < n_; ++i)
      y[i] = std::isnan(points[place][i]) ? 0.0 : (points[place][i] - mean_[i]) / sigma_;
    std::vector<double> white(n_);
    for (std::size_t k = 0; k < n_; ++k) {
      for (std::size_t i = 0; i < n_; ++i)
        white[k] += axes_(i, k) * y[i];
      white[k] /= roots_[k];
    }
    const double length = norm(white);
    const double shrink = length > longest ? longest / length : 1.0;
    const double weight = std::max(weights_[place], 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      y[i] *= shrink;
      batch.mean_step[i] += weight * y[i];
      whitened[i] += weight * shrink * white[i];
    }
    batch.steps.push_back(std::move(y));
    batch.lengths.push_back(length * shrink);
  }
  for (std::size_t i = 0; i < n_; ++i) {
    for (std::size_t k = 0; k < n_; ++k)
      batch.isotropic_step[i] += axes_(i, k) * whitened[k];
  }
  return batch;
}

void Evolution::update(const std::vector<std::vector<double>>& points) {
  const auto n = static_cast<double>(n_);
  const Batch batch = measured(points);
  ++batches_;
  for (std::size_t i = 0; i < n_; ++i) {
    mean_[i] = std::clamp(mean_[i] + sigma_ * batch.mean_step[i], 0.0, 1.0);
    path_sigma_[i] =
        (1.0 - c_sigma_) * path_sigma_[i] + std::sqrt(c_sigma_ * (2.0 - c_sigma_) * mu_eff_) * batch.isotropic_step[i];
  }
  const double path_length = norm(path_sigma_);
  const double settled = std::sqrt(1.0 - std::pow(1.0 - c_sigma_, 2.0 * static_cast<double>(batches_)));
  const bool moving = path_length / settled < (1.4 + 2.0 / (n + 1.0)) * chi_;
  for (std::size_t i = 0; i < n_; ++i) {
    path_c_[i] *= 1.0 - c_c_;
    if (moving) path_c_[i] += std::sqrt(c_c_ * (2.0 - c_c_) * mu_eff_) * batch.mean_step[i];
  }
  adapt_covariance(batch, moving);
  sigma_ *= std::exp(std::min(1.0, c_sigma_ / d_sigma_ * (path_length / chi_ - 1.0)));
  sigma_ = std::min(sigma_, 1.0);
  keep_floors();
  decompose();
}

void Evolution::adapt_covariance(const Batch& batch, bool moving) {
  double weight_sum = 0.0;
  for (const double w : weights_)
    weight_sum += w;
  const double kept = 1.0 - c_1_ - c_mu_ * weight_sum + (moving ? 0.0 : c_1_ * c_c_ * (2.0 - c_c_));
  for (std::size_t i = 0; i < n_; ++i) {
    for (std::size_t j = 0; j < n_; ++j)
      covariance_(i, j) = kept * covariance_(i, j) + c_1_ * path_c_[i] * path_c_[j];
  }
  for (std::size_t place = 0; place < batch.steps.size(); ++place) {
    const double length = batch.lengths[place];
    double w = weights_[place];
    if (w < 0.0) w *= static_cast<double>(n_) / std::max(length * length, 1e-12);
    const std::vector<double>& y = batch.steps[place];
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j)
        covariance_(i, j) += c_mu_ * w * y[i] * y[j];
    }
  }
}

void Evolution::keep_floors() {
  for (std::size_t i = 0; i < n_; ++i) {
    const double least = floors_[i] / sigma_;
    if (covariance_(i, i) < least * least) covariance_(i, i) = least * least;
  }
}

void Evolution::decompose() {
  for (std::size_t i = 0; i < n_; ++i) {
    for (std::size_t j = 0; j < i; ++j)
      covariance_(i, j) = covariance_(j, i) = 0.5 * (covariance_(i, j) + covariance_(j, i));
  }
  Eigen parts = eigen(covariance_);
  double largest = 0.0;
  for (const double value : parts.values)
    largest = std::max(largest, value);
  for (std::size_t k = 0; k < n_; ++k)
    roots_[k] = std::sqrt(std::max(parts.values[k], 1e-14 * largest));
  axes_ = std::move(parts.vectors);
}

bool Evolution::converged() const {
  for (std::size_t i = 0; i < n_; ++i) {
    if (deviation(i) > std::max(1e-9, 1.01 * floors_[i])) return false;
  }
  return true;
}

}  // namespace muster::tuning
