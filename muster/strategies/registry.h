// The strategies by name. A new one is a folder and a line in registry.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/strategies/strategy.h"

namespace muster::strategies {

std::vector<std::string> strategy_names();

// Throws Error{kInvalidInput} for an unknown name, with the nearest one; kResource when the memory cannot be had.
std::unique_ptr<Strategy> make_strategy(const std::string& name, StrategyOptions options);

}  // namespace muster::strategies
