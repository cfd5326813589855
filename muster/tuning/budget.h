// Whether a study has spent what it may. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/tuning/study_plan.h"

namespace muster::tuning {

struct Spent {
  std::uint64_t trials = 0;
  std::uint64_t epochs = 0;
  double processor_seconds = 0;
  double seconds = 0;
  std::uint64_t ended = 0;  // of the trials
};

struct BudgetVerdict {
  bool over = false;     // no trial is begun any more
  bool at_once = false;  // and those that run are stopped: the budget is time, and they would spend more of it
  std::string reason{};
};

BudgetVerdict judge(const Budget& budget, const Spent& spent);

// Seconds until the study is over, by what it has spent in the last `elapsed` seconds, before which it had spent
// `before`; empty: it cannot be told.
std::optional<double> seconds_left(const Budget& budget, const Spent& before, const Spent& now, double elapsed);

}  // namespace muster::tuning
