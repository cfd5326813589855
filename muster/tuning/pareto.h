// Several objectives at once: which results no other one beats in all of them.
//
// All losses are to be minimised (tuning::loss). Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "muster/tuning/trial.h"

namespace muster::tuning {

// Whether `a` is nowhere worse than `b` and somewhere better.
bool dominates(const std::vector<double>& a, const std::vector<double>& b);
// Rank of each point: 0 for the front, 1 for the front of the rest, ... (non-dominated sort).
std::vector<std::size_t> pareto_ranks(const std::vector<std::vector<double>>& losses);
// The area (volume for three, two at most are fast) between the points and `reference`, which is worse than all that
// count. For two objectives.
double hypervolume_2d(const std::vector<std::vector<double>>& losses, const std::vector<double>& reference);
// Numbers of the ended trials on the front, by growing first objective.
std::vector<std::uint64_t> pareto_front(const History& history, const std::vector<Goal>& goals);

}  // namespace muster::tuning
