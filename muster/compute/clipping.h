// Clipping of the gradient by its norm.
#pragma once

#include <algorithm>

namespace muster::compute {

// What the gradient is multiplied with so that its norm is at most `max_norm`: max_norm / (total_norm +
// 1e-6), never more than 1, as torch's clip_grad_norm_. REQUIRES: a finite norm (a step with another one is
// skipped before it comes here).
inline float clip_coefficient(double total_norm, double max_norm) {
  return static_cast<float>(std::min(1.0, max_norm / (total_norm + 1e-6)));
}

}  // namespace muster::compute
