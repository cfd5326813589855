// Population-based training (Jaderberg et al. 2017): a fixed number of members train side by side; at each interval one
// of the worst takes weights and values of one of the best, the values a little changed, and goes on from there.
//
// A member is a chain of trials (Trial::group is the member): what replaces a trial is a new one with the copied
// weights as its lineage. With fewer slots than members those who are behind go first, so all are compared at the same
// resource.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/scheduler.h"

namespace muster::tuning {

struct PopulationBased {
  static constexpr std::string_view kName = "population";
  static constexpr std::string_view kHelp = "Population-based training: the worst copy the best and change a little.";

  std::int64_t population = 8;
  std::int64_t interval = 1;  // resource between two decisions
  double share = 0.25;        // that counts as best, and as worst
  double factor = 1.2;        // numbers are multiplied or divided by it
  double resample = 0.25;     // probability of an entirely new value of a key

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} when there is no decision before the end of a trial.
  std::unique_ptr<Scheduler> make(const ScheduleProblem& problem) const;
};

}  // namespace muster::tuning
