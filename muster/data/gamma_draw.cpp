// Drawn as logarithms: with a small shape the numbers themselves are below the smallest double, and their ratios are
// what counts.
#include "muster/data/gamma_draw.h"

#include <cmath>

namespace muster::data {

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000: at shape + 1, where it always works, and
// brought down to the shape by a power of a uniform number.
double draw_log_gamma(double shape, RandomStream& draws) {
  const double d = shape + 1 - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double normal = draws.normal();
    const double root = 1 + c * normal;
    if (root <= 0) continue;
    const double cube = root * root * root;
    // 1 - uniform is never 0.
    if (std::log(1 - draws.uniform()) >= 0.5 * normal * normal + d - d * cube + d * std::log(cube)) continue;
    return std::log(d * cube) + std::log(1 - draws.uniform()) / shape;
  }
}

}  // namespace muster::data
