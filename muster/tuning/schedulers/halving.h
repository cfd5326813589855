// Successive halving (Jamieson and Talwalkar 2016): all begin, the best third goes on three times as far, and so on.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/scheduler.h"

namespace muster::tuning {

struct SuccessiveHalving {
  static constexpr std::string_view kName = "halving";
  static constexpr std::string_view kHelp = "Successive halving: all begin, the best 1/eta go on at each rung.";

  double eta = 3.0;
  std::int64_t least = 1;  // resource of the first rung
  std::int64_t width = 0;  // trials of a round; 0: all of the study, or one that ends with a single trial

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} when the first rung is not before the end of a trial.
  std::unique_ptr<Scheduler> make(const ScheduleProblem& problem) const;
};

}  // namespace muster::tuning
