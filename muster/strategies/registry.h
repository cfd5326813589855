// The strategies there are. A new one is a folder and a line in registry.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/strategies/strategy_choice.h"

namespace muster::strategies {

// Each with its default options; the first one is what is used where nobody chooses.
std::vector<StrategyChoice> all_strategies();

std::vector<std::string> strategy_names();
// With its default options. Throws Error{kInvalidInput} for an unknown name, with the nearest one.
StrategyChoice strategy_named(std::string_view name);
StrategyChoice default_strategy();

// The names of those with a trait, in words: "shared_sync and parameter_server". For messages.
std::string strategies_with(bool Traits::*trait);

}  // namespace muster::strategies
