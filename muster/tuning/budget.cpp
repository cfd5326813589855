// The first limit that is reached decides; limits in trials and epochs let what runs come to its end.
// Limits in time stop what runs, because it would spend more of it.
#include "muster/tuning/budget.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace muster::tuning {

BudgetVerdict judge(const Budget& budget, const Spent& spent) {
  if (budget.seconds > 0 && spent.seconds >= budget.seconds)
    return {true, true, fmt::format("the budget of {:.0f} s is spent", budget.seconds)};
  if (budget.processor_seconds > 0 && spent.processor_seconds >= budget.processor_seconds)
    return {true, true, fmt::format("the budget of {:.0f} s of processor time is spent", budget.processor_seconds)};
  if (budget.epochs > 0 && spent.epochs >= budget.epochs)
    return {true, false, fmt::format("the budget of {} epochs is spent", budget.epochs)};
  if (budget.trials > 0 && spent.trials >= budget.trials)
    return {true, false, fmt::format("all {} trials were begun", budget.trials)};
  return {};
}

std::optional<double> seconds_left(const Budget& budget, const Spent& before, const Spent& now, double elapsed) {
  double left = std::numeric_limits<double>::infinity();
  const auto by_rate = [&](auto limit, auto was, auto is) {
    if (limit <= 0 || is <= was) return;
    const double rest = static_cast<double>(limit) - static_cast<double>(is);
    left = std::min(left, std::max(0.0, rest * elapsed / static_cast<double>(is - was)));
  };
  if (budget.seconds > 0) left = std::max(0.0, budget.seconds - now.seconds);
  by_rate(budget.processor_seconds, before.processor_seconds, now.processor_seconds);
  by_rate(budget.epochs, before.epochs, now.epochs);
  by_rate(budget.trials, before.ended, now.ended);
  return left < std::numeric_limits<double>::infinity() ? std::optional(left) : std::nullopt;
}

}  // namespace muster::tuning
