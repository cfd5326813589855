// Functions of the C library that Muster computes itself, because a result must have the same bits on every
// x86-64: the C library chooses its code by the processor, and the variants differ in the last bit.
#pragma once

#include <cstdint>

namespace muster::compute {

// base to a whole power, by squaring.
inline double whole_power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace muster::compute
