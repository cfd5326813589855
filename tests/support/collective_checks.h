// Every collective on a given group, against a serial reference: operation x type x reduction x length x in place or
// not. Any backend's test calls check_collectives on all ranks; a difference is a test failure that names the case.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "muster/comm/combine.h"
#include "muster/comm/group.h"

namespace muster::testing {

// Inputs are a function of (rank, index), so that every rank knows what the others gave.
inline std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

template <typename T>
T value_of(int rank, std::size_t index) {
  const std::uint64_t bits = scramble((static_cast<std::uint64_t>(rank) << 40) + index);
  // Magnitudes from 2^-7 to 2^8, so that every order of additions rounds differently.
  const auto real = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63 *
                                       static_cast<double>(1U << (bits % 16)) * 0x1p-7);
  if constexpr (std::is_same_v<T, comm::Half>)
    return comm::to_half(real);
  else if constexpr (std::is_same_v<T, comm::Bfloat16>)
    return comm::to_bfloat16(real);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(real);
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return static_cast<std::int64_t>(bits) / 1024;  // an average of 64 ranks stays inside 64 bits
  else
    return static_cast<T>(bits);
}

// What a reduction computes with before it rounds.
template <typename T>
struct Wide {
  using type = T;
  static T of(T value) { return value; }
};
template <>
struct Wide<comm::Half> {
  using type = float;
  static float of(comm::Half value) { return comm::to_float(value); }
};
template <>
struct Wide<comm::Bfloat16> {
  using type = float;
  static float of(comm::Bfloat16 value) { return comm::to_float(value); }
};

template <typename W>
W combine_two(comm::Reduction reduction, W left, W right) {
  using comm::Reduction;
  if (reduction == Reduction::kMin) return left < right ? left : right;
  if (reduction == Reduction::kMax) return left > right ? left : right;
  if constexpr (std::is_floating_point_v<W>) {
    return reduction == Reduction::kProduct ? left * right : left + right;
  } else {
    const auto l = static_cast<std::uint64_t>(left);
    const auto r = static_cast<std::uint64_t>(right);
    return static_cast<W>(reduction == Reduction::kProduct ? l * r : l + r);
  }
}

// The tree of combine.h, written down once more: one element, by recursion.
template <typename T>
typename Wide<T>::type tree_of(comm::Reduction reduction, int lo, int hi, std::size_t index) {
  if (hi - lo == 1) return Wide<T>::of(value_of<T>(lo, index));
  const int middle = lo + static_cast<int>(std::bit_floor(static_cast<unsigned>(hi - lo - 1)));
  return combine_two(reduction, tree_of<T>(reduction, lo, middle, index), tree_of<T>(reduction, middle, hi, index));
}

// What every rank must hold at `index` after a reduction over `ranks` ranks.
template <typename T>
T reduced_value(comm::Reduction reduction, int ranks, std::size_t index) {
  if (reduction == comm::Reduction::kAverage) {
    if constexpr (std::is_integral_v<T>) {
      std::int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank)
        sum += value_of<T>(rank, index);
      return static_cast<T>(sum / ranks);
    }
  }
  auto wide = tree_of<T>(reduction, 0, ranks, index);
  if constexpr (!std::is_integral_v<T>) {
    if (reduction == comm::Reduction::kAverage) wide /= static_cast<decltype(wide)>(ranks);
  }
  if constexpr (std::is_same_v<T, comm::Half>)
    return comm::to_half(wide);
  else if constexpr (std::is_same_v<T, comm::Bfloat16>)
    return comm::to_bfloat16(wide);
  else
    return static_cast<T>(wide);
}

template <typename T>
std::vector<T> values_of(int rank, std::size_t first, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = value_of<T>(rank, first + i);
  return values;
}

// Bits, not values: a difference in the last place or in the sign of a zero is a failure.
template <typename T>
void expect_same_bits(const std::vector<T>& actual, const std::vector<T>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  if (actual.empty() || std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(T)) == 0) return;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) {
      ADD_FAILURE() << what << ": differs at element " << i << " of " << actual.size();
      return;
    }
  }
}

// Every operation with elements of one of the seven types.
template <typename T>
class CollectiveChecks {
 public:
  explicit CollectiveChecks(comm::Group group) : group_(std::move(group)) {}
  // With `count` elements a rank.
  void check(std::size_t count);

 private:
  comm::Group group_;
};

// The whole matrix. `large` elements is the longest case. In collective_checks.cpp, a library of its own: seven types
// are slow to compile.
void check_collectives(const comm::Group& group, std::size_t large = 70001);

}  // namespace muster::testing
