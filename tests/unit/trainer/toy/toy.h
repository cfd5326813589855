// A strategy as somebody adds one: a folder and a line in the registry. Gradients are summed over the workers in one
// call and multiplied by a gain of its own.
#pragma once

#include <memory>
#include <string_view>

#include "muster/strategies/strategy_kind.h"

namespace muster::strategies {

struct Toy {
  double toy_gain = 1;

  static constexpr std::string_view kName = "toy";

  Traits traits() const { return {.crosses_hosts = true}; }
  void add_keys(Section& parallel) {
    parallel.field("toy_gain", &toy_gain, "toy: what gradients are multiplied by.").above(0);
  }
  StateMemory memory(const StateFigures& figures) const;
  std::unique_ptr<Strategy> make(StrategyOptions needs) const;
};

}  // namespace muster::strategies
