// Points that a user wants to see tried, before a searcher has its say: a decorator that choice.h puts around every
// searcher whose problem has such points.
#pragma once

#include <memory>

#include "muster/tuning/searcher.h"

namespace muster::tuning {

// `inner` alone if there are no points. Throws Error{kInvalidInput} for a point that is not in the space.
std::unique_ptr<Searcher> given_points_first(const SearchProblem& problem, std::unique_ptr<Searcher> inner);

}  // namespace muster::tuning
