// Which lanes of a step are a worker's, where several workers compute a lane together: those of its row. No torch here.
#pragma once

#include <cstddef>

namespace muster::strategies {

// Lanes index, index + count, index + 2 * count and so on of a step.
struct LaneShare {
  std::size_t index = 0;
  std::size_t count = 1;
  bool claims = true;  // it is this worker that claims and finishes them, all of a step before the first is computed
  bool loads = true;   // it reads their samples
};

}  // namespace muster::strategies
