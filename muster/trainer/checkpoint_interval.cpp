// The formula of the header and the limits around it, with a reason in words. No clock and no state: what was measured
// comes in.
#include "muster/trainer/checkpoint_interval.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace muster::trainer {
namespace {

// "85 ms", "12 s", "10.0 min", "24.1 h".
std::string duration_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 7200) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

IntervalDecision choose_interval(const IntervalInputs& inputs, const IntervalLimits& limits) {
  if (!inputs.cost_seconds) {
    return {limits.first_seconds,
            fmt::format("after {} of training: what one costs is not known yet", duration_text(limits.first_seconds))};
  }
  const double cost = std::max(*inputs.cost_seconds, 0.0);
  const double between_failures =
      (limits.prior_seconds + inputs.trained_seconds) / static_cast<double>(1 + inputs.failures);
  const double best = std::sqrt(2 * cost * between_failures);
  const double cheap = cost / limits.most_overhead;
  const double shortest = std::max({cheap, limits.shortest_seconds, inputs.step_seconds});
  const double seconds = std::max(std::min(best, limits.longest_seconds), shortest);

  std::string bound = "where cost and repeated work are least";
  if (seconds == cheap) {
    bound = fmt::format("so that they take at most {:.3g} % of the time", 100 * limits.most_overhead);
  } else if (seconds == shortest) {
    bound = "the shortest there is";
  } else if (seconds == limits.longest_seconds) {
    bound = "the longest there is";
  }
  const double steps = inputs.step_seconds > 0 ? std::max(1.0, std::round(seconds / inputs.step_seconds)) : 1;
  return {seconds, fmt::format("every {} (about {:.0f} steps), {}: one costs {}; {} failures in {} of training",
                               duration_text(seconds), steps, bound, duration_text(cost), inputs.failures,
                               duration_text(inputs.trained_seconds))};
}

}  // namespace muster::trainer
