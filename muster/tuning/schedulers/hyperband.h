// Hyperband (Li et al. 2018): brackets of successive halving that begin with many short or few long trials, in turn,
// since nobody knows how early a good trial shows. With the searcher bohb inside it is BOHB.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/base/config.h"
#include "muster/tuning/scheduler.h"

namespace muster::tuning {

struct Hyperband {
  static constexpr std::string_view kName = "hyperband";
  static constexpr std::string_view kHelp =
      "Brackets of successive halving from many short to few long trials; with the searcher bohb: BOHB.";

  double eta = 3.0;
  std::int64_t least = 1;  // resource of the shortest first rung

  void add_keys(Section& section);
  // Throws Error{kInvalidInput} when the first rung is not before the end of a trial.
  std::unique_ptr<Scheduler> make(const ScheduleProblem& problem) const;
};

}  // namespace muster::tuning
