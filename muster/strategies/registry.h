// The strategies there are, for job files and commands. A new one is a folder and a line in registry.cpp. Programs
// choose one by its type (strategy_choice.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/strategies/strategy_choice.h"

namespace muster::strategies {

// Each with the options that a job file begins with; the first one is what is used where nobody chooses.
std::vector<StrategyChoice> all_strategies();

std::vector<std::string> strategy_names();
// The one of that name; null: none of them has it.
const StrategyChoice* find_strategy(std::span<const StrategyChoice> choices, std::string_view name);
// With the options that a job file begins with. Throws Error{kInvalidInput} for an unknown name, with the nearest one.
StrategyChoice strategy_named(std::string_view name);

// The names of those with a trait, in words: "shared_sync and parameter_server". For messages.
std::string strategies_with(bool Traits::*trait);

}  // namespace muster::strategies
