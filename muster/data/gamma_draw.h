// Numbers of a gamma distribution, of which Beta and Dirichlet ones are made.
#pragma once

#include "muster/base/random.h"

namespace muster::data {

// The logarithm of a number drawn from Gamma(shape, 1): small shapes give numbers below the smallest double.
// Draws a number of values of the stream that depends on them. REQUIRES: shape > 0.
double draw_log_gamma(double shape, RandomStream& draws);

}  // namespace muster::data
