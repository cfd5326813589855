// How much each key mattered for the first objective (or another): fANOVA, the share of variance that each key alone
// explains (Hutter, Hoos, Leyton-Brown 2014), exactly computed on a random forest of our own.
//
// The forest is seeded and deterministic. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/tuning/space.h"
#include "muster/tuning/trial.h"

namespace muster::tuning {

struct Importance {
  std::string name;
  double share = 0.0;  // of the variance, 0 to 1, averaged over the trees; the shares of all keys sum to at most 1
};

// Of the ended trials that have an outcome, in the order of the space. Empty if there are fewer than 10 of them (what
// trees make of fewer is chance) or all outcomes are the same. A key that is not active counts as a value of its own.
std::vector<Importance> importance(const Space& space, const History& history, std::size_t objective, Goal goal,
                                   std::uint64_t seed = 0);

}  // namespace muster::tuning
