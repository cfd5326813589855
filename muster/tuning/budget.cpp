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

std::optional<double> seconds_left(const Budget& budget, const Spent& spent, std::uint64_t ended, double elapsed) {
  double left = std::numeric_limits<double>::infinity();
  const auto by_rate = [&](double limit, double done) {
    if (limit > 0 && done > 0) left = std::min(left, std::max(0.0, (limit - done) * elapsed / done));
  };
  if (budget.seconds > 0) left = std::max(0.0, budget.seconds - spent.seconds);
  by_rate(budget.processor_seconds, spent.processor_seconds);
  by_rate(static_cast<double>(budget.epochs), static_cast<double>(spent.epochs));
  by_rate(static_cast<double>(budget.trials), static_cast<double>(ended));
  return left < std::numeric_limits<double>::infinity() ? std::optional(left) : std::nullopt;
}

}  // namespace muster::tuning
