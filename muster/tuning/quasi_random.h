// Points that fill the unit cube evenly: a Sobol sequence.
//
// Dimension j is driven by the j-th primitive polynomial over GF(2), by growing degree, which are found here, as are
// the free direction numbers: of the candidates of a fixed random stream those are taken whose pairs with earlier
// dimensions fill the square best (smallest sum of t-values of the first 4 to 256 points). The first three dimensions
// are the published ones. A seed turns the points by a random linear scramble and a digital shift, which keeps them as
// even as they were (Matousek 1998). Thread safety: values, constant after construction.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace muster::tuning {

// Of growing degree: bit i is the coefficient of x^i. The first is 1 + x. Degree at most 16.
std::vector<std::uint32_t> primitive_polynomials(std::size_t count);

class QuasiRandom {
 public:
  static constexpr int kBits = 32;
  using Directions = std::array<std::uint32_t, kBits>;

  // Without a seed: the plain sequence, whose point 0 is the origin. REQUIRES: dimensions <= 2,000.
  QuasiRandom(std::size_t dimensions, std::optional<std::uint64_t> seed);

  // Point `index` (in the order of Gray codes), each coordinate in [0, 1). Repeats after 2^32.
  std::vector<double> point(std::uint64_t index) const;

 private:
  std::vector<Directions> directions_;
  std::vector<std::uint32_t> shifts_;
};

}  // namespace muster::tuning
