// Finding strategies by name and by trait, whichever registry.cpp lists. Apart from it, so that a program may have a
// registry of its own.
#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::strategies {

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyChoice& strategy : all_strategies())
    names.push_back(strategy.name());
  return names;
}

const StrategyChoice* find_strategy(std::span<const StrategyChoice> choices, std::string_view name) {
  const auto found = std::ranges::find(choices, name, &StrategyChoice::name);
  return found == choices.end() ? nullptr : &*found;
}

StrategyChoice strategy_named(std::string_view name) {
  const std::vector<StrategyChoice> all = all_strategies();
  if (const StrategyChoice* const found = find_strategy(all, name)) return *found;
  const std::vector<std::string> names = strategy_names();
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("no strategy \"{}\"{}", name, did_you_mean(std::string(name), names)), {},
              fmt::format("Strategies are {}.", join_words(names)));
}

StrategyChoice default_strategy() {
  return all_strategies().front().with_defaults();
}

std::string strategies_with(bool Traits::*trait) {
  std::vector<std::string> names;
  for (const StrategyChoice& strategy : all_strategies()) {
    if (strategy.traits().*trait) names.push_back(strategy.name());
  }
  return join_words(names);
}

}  // namespace muster::strategies
