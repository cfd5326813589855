// Kernels, their bandwidths, drawing from them and their density.
// Sums of kernels are taken by logarithms, since products over many keys leave the range of a double.
#include "muster/tuning/searchers/parzen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace muster::tuning {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kMostCells = 64;  // beyond, a cell is narrower than any kernel

double normal_below(double x) {
  return 0.5 * std::erfc(-x * M_SQRT1_2);
}

// Where in the unit interval value i of a discrete parameter ends and the next one begins.
double upper_edge(const Parameter& parameter, std::uint64_t i) {
  if (!parameter.log) return static_cast<double>(i + 1) / static_cast<double>(*parameter.count());
  const double low = std::log(parameter.least - 0.5);
  const double width = std::log(parameter.most + 0.5) - low;
  return (std::log(parameter.least + static_cast<double>(i) + 0.5) - low) / width;
}

}  // namespace

Parzen::Parzen(const Space& space, std::vector<std::size_t> keys, const std::vector<std::span<const double>>& rows,
               std::vector<double> weights, const ParzenOptions& options)
    : space_(space) {
  const std::size_t kernels = rows.size() + 1;
  for (const std::size_t key : space.order()) {
    const Parameter& parameter = space.parameters()[key];
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    Axis& axis = axes_.emplace_back();
    axis.key = key;
    for (const std::span<const double> row : rows)
      axis.center.push_back(row[key]);
    axis.center.push_back(kNone);
    if (parameter.kind == Kind::kChoice) {
      axis.choices = parameter.choices.size();
      const double share = options.prior_weight / static_cast<double>(kernels);
      axis.off = share / (1.0 + share * static_cast<double>(axis.choices));
      axis.on = axis.off + 1.0 / (1.0 + share * static_cast<double>(axis.choices));
    } else {
      fit_number(axis, options);
      if (parameter.count().value_or(kMostCells + 1) <= kMostCells) tabulate(axis);
    }
  }
  weights.push_back(rows.empty() ? 1.0 : options.prior_weight);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double before = 0.0;
  for (const double weight : weights) {
    cumulative_.push_back(before += weight / sum);
    log_weights_.push_back(std::log(weight / sum));
  }
}

void Parzen::fit_number(Axis& axis, const ParzenOptions& options) const {
  const std::size_t kernels = axis.center.size();
  std::vector<std::size_t> sorted;
  for (std::size_t i = 0; i < kernels; ++i) {
    if (!std::isnan(axis.center[i])) sorted.push_back(i);
  }
  std::sort(sorted.begin(), sorted.end(), [&](auto a, auto b) { return axis.center[a] < axis.center[b]; });
  const double narrow =
      std::pow(std::min(options.most_kernels, static_cast<double>(sorted.size()) + 2.0), -options.sharpness);
  axis.width.assign(kernels, 1.0);
  axis.inverse.assign(kernels, 1.0);
  axis.scale.assign(kernels, 0.0);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double here = axis.center[sorted[i]];
    double below = i > 0 ? here - axis.center[sorted[i - 1]] : 0.0;
    double above = i + 1 < sorted.size() ? axis.center[sorted[i + 1]] - here : 0.0;
    if (sorted.size() == 1) {
      below = here;
      above = 1.0 - here;
    }
    const double width = std::clamp(std::max(below, above), narrow, 1.0);
    axis.width[sorted[i]] = width;
    axis.inverse[sorted[i]] = 1.0 / width;
    const double inside = normal_below((1.0 - here) / width) - normal_below(-here / width);
    axis.scale[sorted[i]] = -std::log(inside) - std::log(width * std::sqrt(2.0 * M_PI));
  }
  // The prior of a number: a wide normal distribution around the middle.
  axis.center.back() = 0.5;
  const double inside = normal_below(0.5) - normal_below(-0.5);
  axis.scale.back() = -std::log(inside) - 0.5 * std::log(2.0 * M_PI);
}

// The probability of each value under each kernel: looked up for every candidate, computed once.
void Parzen::tabulate(Axis& axis) const {
  const Parameter& parameter = space_.parameters()[axis.key];
  const std::uint64_t count = *parameter.count();
  axis.cells.assign(count, std::vector<double>(axis.center.size()));
  for (std::size_t k = 0; k < axis.center.size(); ++k) {
    const bool whole = std::isnan(axis.center[k]);
    const auto below = [&](double edge) {
      return whole ? edge : normal_below((edge - axis.center[k]) * axis.inverse[k]);
    };
    const double inside = below(1.0) - below(0.0);
    double before = below(0.0);
    for (std::uint64_t i = 0; i < count; ++i) {
      const double up_to = below(upper_edge(parameter, i));
      axis.cells[i][k] = std::log(std::max((up_to - before) / inside, 1e-300));
      before = up_to;
    }
  }
}

double Parzen::draw(const Axis& axis, std::size_t kernel, RandomStream& random) const {
  const Parameter& parameter = space_.parameters()[axis.key];
  const double center = axis.center[kernel];
  if (axis.choices > 0) {
    const auto count = static_cast<double>(axis.choices);
    const double unit = random.uniform();
    const bool own = random.uniform() < axis.on - axis.off;
    return own && !std::isnan(center) ? center : (std::floor(unit * count) + 0.5) / count;
  }
  double unit = 0.0;
  if (std::isnan(center)) {
    unit = random.uniform();
  } else {
    do {
      unit = center + axis.width[kernel] * random.normal();
    } while (unit < 0.0 || unit > 1.0);
  }
  return parameter.to_unit(parameter.from_unit(unit));
}

void Parzen::sample(RandomStream& random, std::vector<double>& units, Assignment& chosen) const {
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), random.uniform());
  const std::size_t kernel = std::min(static_cast<std::size_t>(found - cumulative_.begin()), cumulative_.size() - 1);
  for (const Axis& axis : axes_) {
    const double unit = draw(axis, kernel, random);
    const bool active = space_.active(axis.key, chosen);
    units[axis.key] = active ? unit : kNone;
    if (active) chosen.set(space_.parameters()[axis.key].name, space_.parameters()[axis.key].from_unit(unit));
  }
}

void Parzen::add_axis(const Axis& axis, double unit, std::vector<double>& logs) const {
  const std::size_t kernels = logs.size();
  if (axis.choices > 0) {
    const double on = std::log(axis.on);
    const double off = std::log(axis.off);
    const double even = -std::log(static_cast<double>(axis.choices));
    for (std::size_t k = 0; k < kernels; ++k)
      logs[k] += std::isnan(axis.center[k]) ? even : std::abs(axis.center[k] - unit) < 1e-9 ? on : off;
  } else if (!axis.cells.empty()) {
    const Parameter& parameter = space_.parameters()[axis.key];
    const std::vector<double>& cell = axis.cells[parameter.index(parameter.from_unit(unit))];
    for (std::size_t k = 0; k < kernels; ++k)
      logs[k] += cell[k];
  } else {
    for (std::size_t k = 0; k < kernels; ++k) {
      const double away = (unit - axis.center[k]) * axis.inverse[k];
      const double log = axis.scale[k] - 0.5 * away * away;
      logs[k] += log == log ? log : 0.0;  // NaN: the whole range, with density 1
    }
  }
}

double Parzen::log_density(const std::vector<double>& units) const {
  std::vector<double> logs = log_weights_;
  for (const Axis& axis : axes_) {
    if (!std::isnan(units[axis.key])) add_axis(axis, units[axis.key], logs);
  }
  const double most = *std::max_element(logs.begin(), logs.end());
  double sum = 0.0;
  for (const double log : logs) {
    if (log > most - 40.0) sum += std::exp(log - most);
  }
  return most + std::log(sum);
}

}  // namespace muster::tuning
