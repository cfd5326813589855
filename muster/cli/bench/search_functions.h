// Functions with known minima, on which searchers are compared: what a trial would cost minutes for costs nothing here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/tuning/space.h"

namespace muster::cli {

struct SearchFunction {
  std::string name;
  tuning::Space space;
  double minimum = 0.0;
  std::function<double(const tuning::Assignment&)> value;
};

// branin (2 numbers), hartmann6 (6), rosenbrock (4), mixed (a logarithmic number, an integer, a choice, ...) and
// conditional (a choice that decides which other keys there are).
std::vector<SearchFunction> search_functions();

}  // namespace muster::cli
