// The order of additions is the result: blocks, tiles and vector code may be cut as one likes, but element i is always
// combined by the same tree. Tiles keep partial results in the first cache, so that depth costs no memory traffic.
#include "muster/comm/combine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "muster/base/check.h"
#include "muster/base/kernel.h"

namespace muster::comm {
namespace {

// Sums of int64 that are averaged: a group's ranks cannot overflow it.
__extension__ using Int128 = __int128;

// 4 KiB of the widest accumulator at a time: partial results stay in the first cache level, so memory is read once
// however deep the tree.
constexpr std::size_t kTile = 512;
// tree() puts its left part one level up and its right part two, and 64 ranks are 6 levels of splitting.
constexpr std::size_t kLevels = 12;

// How one element type is stored and computed with.
template <typename Stored>
struct Arithmetic {
  using Accumulator = Stored;
  static Accumulator load(Stored value) { return value; }
  static Stored store(Accumulator value) { return value; }
};

template <>
struct Arithmetic<Half> {
  using Accumulator = float;
  static float load(Half value) { return to_float(value); }
  static Half store(float value) { return to_half(value); }
};

template <>
struct Arithmetic<Bfloat16> {
  using Accumulator = float;
  MUSTER_KERNEL_BODY static float load(Bfloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
  }
  static Bfloat16 store(float value) { return to_bfloat16(value); }
};

// Signed overflow is undefined in C++ and wraps here, so integers are combined as unsigned.
template <typename T, typename Enable = void>
struct Wrapping {
  using type = T;
};
template <typename T>
struct Wrapping<T, std::enable_if_t<std::is_integral_v<T> && std::is_signed_v<T>>> {
  using type = std::make_unsigned_t<T>;
};

struct Add {
  template <typename T>
  MUSTER_KERNEL_BODY static T apply(T left, T right) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<W>(left) + static_cast<W>(right));
  }
};
struct Multiply {
  template <typename T>
  MUSTER_KERNEL_BODY static T apply(T left, T right) {
    using W = typename Wrapping<T>::type;
    return static_cast<T>(static_cast<W>(left) * static_cast<W>(right));
  }
};
// If either is a NaN so is the result: comparisons with one are false, and only a NaN differs from itself.
struct Minimum {
  template <typename T>
  MUSTER_KERNEL_BODY static T apply(T left, T right) {
    return (left < right || left != left) ? left : right;
  }
};
struct Maximum {
  template <typename T>
  MUSTER_KERNEL_BODY static T apply(T left, T right) {
    return (left > right || left != left) ? left : right;
  }
};

// The common case, two ranks of plain elements, is one loop that every processor gets its own code for. `out` may be
// `left` or `right`: element i is read before it is written.
template <typename T, typename Op>
MUSTER_KERNEL_BODY void pair_body(const T* left, const T* right, T* out, std::size_t count) {
  // One of the two was written by another core: asking for it early hides most of the way. Asking costs nothing where
  // it is not needed, and asking beyond the end is harmless.
  constexpr std::size_t kBlock = 256 / sizeof(T);
  constexpr std::size_t kAhead = 512 / sizeof(T);
  std::size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (std::size_t line = 0; line < kBlock; line += 64 / sizeof(T)) {
      __builtin_prefetch(left + i + kAhead + line);
      __builtin_prefetch(right + i + kAhead + line);
    }
#ifndef __clang__  // which finds out by itself, and knows no such pragma
#pragma GCC ivdep
#endif
    for (std::size_t j = i; j < i + kBlock; ++j)
      out[j] = Op::apply(left[j], right[j]);
  }
  for (; i < count; ++i)
    out[i] = Op::apply(left[i], right[i]);
}
MUSTER_KERNEL void add_pair(const float* left, const float* right, float* out, std::size_t count) {
  pair_body<float, Add>(left, right, out, count);
}

template <typename T, typename Op>
void combine_pair(const T* left, const T* right, T* out, std::size_t count) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Op, Add>)
    add_pair(left, right, out, count);
  else
    pair_body<T, Op>(left, right, out, count);
}

// Combines one tile of many inputs. Accumulators of intermediate results live in `partial_`, a level each.
template <typename Stored, typename Accumulator, typename Op>
class Tile {
 public:
  explicit Tile(std::span<const void* const> inputs) : inputs_(inputs) {}

  // The combination of inputs [lo, hi) at [offset, offset + count).
  const Accumulator* tree(std::size_t lo, std::size_t hi, std::size_t offset, std::size_t count, Accumulator* out,
                          std::size_t level = 0) {
    if (hi - lo == 1) return leaf(lo, offset, count, out);
    const std::size_t middle = lo + std::bit_floor(hi - lo - 1);
    const Accumulator* left = tree(lo, middle, offset, count, partial_[level].data(), level + 1);
    const Accumulator* right = tree(middle, hi, offset, count, partial_[level + 1].data(), level + 2);
    combine_pair<Accumulator, Op>(left, right, out, count);
    return out;
  }

 private:
  const Accumulator* leaf(std::size_t input, std::size_t offset, std::size_t count, Accumulator* out) const {
    const Stored* values = static_cast<const Stored*>(inputs_[input]) + offset;
    if constexpr (std::is_same_v<Stored, Accumulator>) {
      return values;
    } else {
      for (std::size_t i = 0; i < count; ++i)
        out[i] = static_cast<Accumulator>(Arithmetic<Stored>::load(values[i]));
      return out;
    }
  }

  std::span<const void* const> inputs_;
  alignas(64) std::array<std::array<Accumulator, kTile>, kLevels> partial_;
};

// What becomes of an accumulator: divided for an average, rounded to what is stored.
template <typename Stored, typename Accumulator>
Stored finished(Accumulator value, std::size_t divisor) {
  if (divisor != 1) {
    if constexpr (std::is_integral_v<Stored>)
      value = static_cast<Accumulator>(value / static_cast<Accumulator>(divisor));
    else
      value = value / static_cast<Accumulator>(divisor);
  }
  if constexpr (std::is_same_v<Stored, Half> || std::is_same_v<Stored, Bfloat16>)
    return Arithmetic<Stored>::store(value);
  else
    return static_cast<Stored>(value);
}

template <typename Stored, typename Accumulator, typename Op>
void combine_as(std::span<const void* const> inputs, void* output, std::size_t count, std::size_t divisor) {
  auto* out = static_cast<Stored*>(output);
  if constexpr (std::is_same_v<Stored, Accumulator>) {
    if (divisor == 1 && inputs.size() == 2) {
      combine_pair<Stored, Op>(static_cast<const Stored*>(inputs[0]), static_cast<const Stored*>(inputs[1]), out,
                               count);
      return;
    }
  }
  Tile<Stored, Accumulator, Op> tile(inputs);
  alignas(64) std::array<Accumulator, kTile> root;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t width = std::min(kTile, count - begin);
    const Accumulator* values = tile.tree(0, inputs.size(), begin, width, root.data());
    for (std::size_t i = 0; i < width; ++i)
      out[begin + i] = finished<Stored>(values[i], divisor);
  }
}

template <typename Stored, typename Accumulator, typename AverageAccumulator>
void combine_typed(Reduction reduction, std::span<const void* const> inputs, void* output, std::size_t count) {
  switch (reduction) {
    case Reduction::kSum:
      return combine_as<Stored, Accumulator, Add>(inputs, output, count, 1);
    case Reduction::kMin:
      return combine_as<Stored, Accumulator, Minimum>(inputs, output, count, 1);
    case Reduction::kMax:
      return combine_as<Stored, Accumulator, Maximum>(inputs, output, count, 1);
    case Reduction::kProduct:
      return combine_as<Stored, Accumulator, Multiply>(inputs, output, count, 1);
    case Reduction::kAverage:
      return combine_as<Stored, AverageAccumulator, Add>(inputs, output, count, inputs.size());
  }
}

template <typename From, typename To>
void convert(const void* input, void* output, std::size_t count, std::size_t divisor) {
  const auto* from = static_cast<const From*>(input);
  auto* to = static_cast<To*>(output);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = finished<To>(from[i], divisor);
}

template <typename Stored>
void widen_to_float(const void* input, void* partial, std::size_t count) {
  const auto* from = static_cast<const Stored*>(input);
  auto* to = static_cast<float*>(partial);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = Arithmetic<Stored>::load(from[i]);
}

}  // namespace

void combine(ElementType type, Reduction reduction, std::span<const void* const> inputs, void* output,
             std::size_t count) {
  MUSTER_CHECK(!inputs.empty() && inputs.size() <= kMaxRanks, "a combination has 1 to 64 inputs");
  if (inputs.size() == 1) {
    if (output != inputs[0] && count > 0) std::memcpy(output, inputs[0], count * size_of(type));
    return;
  }
  switch (type) {
    case ElementType::kFloat:
      return combine_typed<float, float, float>(reduction, inputs, output, count);
    case ElementType::kDouble:
      return combine_typed<double, double, double>(reduction, inputs, output, count);
    case ElementType::kHalf:
      return combine_typed<Half, float, float>(reduction, inputs, output, count);
    case ElementType::kBfloat16:
      return combine_typed<Bfloat16, float, float>(reduction, inputs, output, count);
    case ElementType::kInt32:
      return combine_typed<std::int32_t, std::int32_t, std::int64_t>(reduction, inputs, output, count);
    case ElementType::kInt64:
      return combine_typed<std::int64_t, std::int64_t, Int128>(reduction, inputs, output, count);
    case ElementType::kUint8:
      return combine_typed<std::uint8_t, std::uint8_t, std::int32_t>(reduction, inputs, output, count);
  }
}

Reduction partial_reduction(Reduction reduction) {
  return reduction == Reduction::kAverage ? Reduction::kSum : reduction;
}

ElementType partial_type(ElementType type, Reduction reduction) {
  if (type == ElementType::kHalf || type == ElementType::kBfloat16) return ElementType::kFloat;
  // The sum of 64-bit integers has no wider type to travel in: it wraps beyond 64 bits.
  if (reduction == Reduction::kAverage && (type == ElementType::kInt32 || type == ElementType::kUint8))
    return ElementType::kInt64;
  return type;
}

void widen(ElementType type, Reduction reduction, const void* input, void* partial, std::size_t count) {
  if (count == 0) return;
  if (type == ElementType::kHalf) return widen_to_float<Half>(input, partial, count);
  if (type == ElementType::kBfloat16) return widen_to_float<Bfloat16>(input, partial, count);
  if (partial_type(type, reduction) == type) {
    if (partial != input) std::memcpy(partial, input, count * size_of(type));
  } else if (type == ElementType::kInt32) {
    convert<std::int32_t, std::int64_t>(input, partial, count, 1);
  } else {
    convert<std::uint8_t, std::int64_t>(input, partial, count, 1);
  }
}

void finish(ElementType type, Reduction reduction, const void* partial, void* output, std::size_t count,
            std::size_t ranks) {
  const std::size_t divisor = reduction == Reduction::kAverage ? ranks : 1;
  if (count == 0 || (divisor == 1 && partial == output)) return;
  switch (type) {
    case ElementType::kFloat:
      return convert<float, float>(partial, output, count, divisor);
    case ElementType::kDouble:
      return convert<double, double>(partial, output, count, divisor);
    case ElementType::kHalf:
      return convert<float, Half>(partial, output, count, divisor);
    case ElementType::kBfloat16:
      return convert<float, Bfloat16>(partial, output, count, divisor);
    case ElementType::kInt64:
      return convert<std::int64_t, std::int64_t>(partial, output, count, divisor);
    case ElementType::kInt32:
      if (reduction == Reduction::kAverage) return convert<std::int64_t, std::int32_t>(partial, output, count, divisor);
      return convert<std::int32_t, std::int32_t>(partial, output, count, 1);
    case ElementType::kUint8:
      if (reduction == Reduction::kAverage) return convert<std::int64_t, std::uint8_t>(partial, output, count, divisor);
      return convert<std::uint8_t, std::uint8_t>(partial, output, count, 1);
  }
}

float to_float(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  // Scaling by a power of two is exact and turns subnormal halves into normal floats.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

float to_float(Bfloat16 value) {
  return Arithmetic<Bfloat16>::load(value);
}

Half to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U)  // a NaN stays one, quiet
    return {static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU))};
  if (magnitude >= 0x477ff000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};  // rounds to infinity
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 leaves the half's bits, correctly rounded, at the end of the sum's.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000U))};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return {static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13))};
}

Bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace muster::comm
