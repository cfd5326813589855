// Sums are of logarithms throughout: terms reach far beyond what a double holds. Whole orders have a finite sum;
// others a series with an error function in each term, whose signs change once the binomials do.
#include "muster/federated/accountant.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "muster/federated/round_costs.h"

namespace muster::federated {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double larger = std::max(a, b);
  if (larger == kMinusInfinity) return larger;
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

// log(e^a - e^b); a is the larger one but for rounding.
double log_subtract(double a, double b) {
  if (b == kMinusInfinity) return a;
  if (b >= a) return kMinusInfinity;
  return a + std::log1p(-std::exp(b - a));
}

double log_erfc(double x) {
  if (x < 20) return std::log(std::erfc(x));
  // Its asymptotic series; the next term is below 1e-11 from here on.
  const double s = 1 / (2 * x * x);
  return -x * x - std::log(x * std::sqrt(M_PI)) + std::log1p(-s + 3 * s * s - 15 * s * s * s);
}

// log of the moment, for a whole order.
double log_moment_of_whole(double q, double sigma, std::uint64_t order) {
  const auto a = static_cast<double>(order);
  double sum = kMinusInfinity;
  for (std::uint64_t i = 0; i <= order; ++i) {
    const auto k = static_cast<double>(i);
    const double log_binomial = std::lgamma(a + 1) - std::lgamma(k + 1) - std::lgamma(a - k + 1);
    sum = log_add(sum, log_binomial + (a - k) * std::log1p(-q) + k * std::log(q) + (k * k - k) / (2 * sigma * sigma));
  }
  return sum;
}

double log_moment_of_any(double q, double sigma, double a) {
  double low = kMinusInfinity;
  double high = kMinusInfinity;
  const double z = sigma * sigma * std::log(1 / q - 1) + 0.5;
  double log_binomial = 0;  // of (a over i), and its sign
  bool positive = true;
  for (double i = 0;; ++i) {
    const double j = a - i;
    const double term_low = log_binomial + i * std::log(q) + j * std::log1p(-q) + (i * i - i) / (2 * sigma * sigma) +
                            std::log(0.5) + log_erfc((i - z) / (std::sqrt(2.0) * sigma));
    const double term_high = log_binomial + j * std::log(q) + i * std::log1p(-q) + (j * j - j) / (2 * sigma * sigma) +
                             std::log(0.5) + log_erfc((z - j) / (std::sqrt(2.0) * sigma));
    low = positive ? log_add(low, term_low) : log_subtract(low, term_low);
    high = positive ? log_add(high, term_high) : log_subtract(high, term_high);
    if (i > a && std::max(term_low, term_high) < std::max(low, high) - 40) break;
    const double factor = (a - i) / (i + 1);
    log_binomial += std::log(std::abs(factor));
    if (factor < 0) positive = !positive;
  }
  return log_add(low, high);
}

std::vector<double> orders() {
  std::vector<double> orders;
  for (double order = 1.05; order < 11; order += 0.05)
    orders.push_back(std::round(order * 20) / 20);
  for (double order = 11; order <= 64; ++order)
    orders.push_back(order);
  for (const double order : {80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0, 2048.0, 4096.0})
    orders.push_back(order);
  return orders;
}

double epsilon_of(double divergence, double order, double delta) {
  return divergence + std::log1p(-1 / order) - (std::log(delta) + std::log(order)) / (order - 1);
}

}  // namespace

double renyi_divergence(const Mechanism& mechanism, double order) {
  const auto [sigma, q] = mechanism;
  if (q >= 1) return order / (2 * sigma * sigma);
  const bool whole = order == std::floor(order);
  const double moment =
      whole ? log_moment_of_whole(q, sigma, static_cast<std::uint64_t>(order)) : log_moment_of_any(q, sigma, order);
  return std::max(0.0, moment) / (order - 1);
}

RoundCosts::RoundCosts(const Mechanism& mechanism) {
  for (const double order : orders())
    divergences_.push_back(renyi_divergence(mechanism, order));
}

Spent RoundCosts::spent_after(std::uint64_t rounds, double delta) const {
  if (rounds == 0) return {};
  const std::vector<double> all = orders();
  Spent best{std::numeric_limits<double>::infinity(), 0};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double epsilon = epsilon_of(static_cast<double>(rounds) * divergences_[i], all[i], delta);
    if (epsilon < best.epsilon) best = {std::max(0.0, epsilon), all[i]};
  }
  return best;
}

std::uint64_t RoundCosts::rounds_within(double epsilon, double delta) const {
  // For every order what is left of epsilon, in rounds; the best order wins. The same as searching spent_after().
  const std::vector<double> all = orders();
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double room = epsilon - epsilon_of(0, all[i], delta);
    if (room >= 0) most = std::max(most, divergences_[i] > 0 ? std::floor(room / divergences_[i]) : 1e18);
  }
  auto rounds = static_cast<std::uint64_t>(std::min(most, 1e18));
  while (rounds > 0 && spent_after(rounds, delta).epsilon > epsilon)
    --rounds;  // rounding of the division
  return rounds;
}

Spent spent_after(const Mechanism& mechanism, std::uint64_t rounds, double delta) {
  return rounds == 0 ? Spent{} : RoundCosts(mechanism).spent_after(rounds, delta);
}

std::uint64_t rounds_within(const Mechanism& mechanism, double epsilon, double delta) {
  return RoundCosts(mechanism).rounds_within(epsilon, delta);
}

std::uint64_t steps_of_epoch(std::uint64_t samples, std::uint64_t batch) {
  return (samples + batch - 1) / batch;
}

}  // namespace muster::federated
