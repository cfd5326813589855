// ASHA, asynchronous successive halving (Li et al. 2020): nobody waits for a rung to fill. A trial that is among the
// best 1 / eta of those that came to its rung so far goes on, at once or when others show that it is; else it pauses
// and a new one begins.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/scheduler.h"

namespace muster::tuning {

struct Asha {
  static constexpr std::string_view kName = "asha";
  static constexpr std::string_view kHelp = "Successive halving that never waits; first choice for many trials.";

  double eta = 3.0;
  std::int64_t least = 1;  // resource of the first rung
  bool resume = true;      // paused trials may go on later; false: who is not among the best stops

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} when the first rung is not before the end of a trial.
  std::unique_ptr<Scheduler> make(const ScheduleProblem& problem) const;
};

}  // namespace muster::tuning
