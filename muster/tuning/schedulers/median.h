// Median stopping (Vizier, Golovin et al. 2017): a trial whose best value so far is worse than the median of what the
// others had, on average, up to the same resource, is stopped.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/scheduler.h"

namespace muster::tuning {

struct MedianStopping {
  static constexpr std::string_view kName = "median";
  static constexpr std::string_view kHelp = "Stops trials that are worse than the median of the others; careful.";

  std::int64_t startup = 5;  // trials that must have come as far before anybody is judged
  std::int64_t grace = 1;    // resource below which nobody is stopped

  void add_keys(Section& section);
  std::unique_ptr<Scheduler> make(const ScheduleProblem& problem) const;
};

}  // namespace muster::tuning
