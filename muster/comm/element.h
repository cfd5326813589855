// What collectives move: arrays of one of seven element types, and how elements are combined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace muster::comm {

enum class ElementType : std::uint8_t { kFloat, kDouble, kHalf, kBfloat16, kInt32, kInt64, kUint8 };

// Integer sums and products wrap around. Averages are the sum divided by the number of ranks; of integers the exact
// sum, rounded towards zero. A minimum or maximum with a NaN among its inputs is a NaN. Half and bfloat16 are combined
// in float and rounded once, at the end.
enum class Reduction : std::uint8_t { kSum, kMin, kMax, kProduct, kAverage };

// IEEE binary16 and bfloat16 as bits: nothing here computes with one of them but combine.h.
struct Half {
  std::uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
  bool operator==(const Bfloat16&) const = default;
};

std::string_view to_string(ElementType type);
std::string_view to_string(Reduction reduction);

constexpr std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kDouble:
    case ElementType::kInt64:
      return 8;
    case ElementType::kFloat:
    case ElementType::kInt32:
      return 4;
    case ElementType::kHalf:
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kUint8:
      return 1;
  }
  return 0;
}

template <typename T>
constexpr ElementType element_type() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return ElementType::kFloat;
  else if constexpr (std::is_same_v<U, double>)
    return ElementType::kDouble;
  else if constexpr (std::is_same_v<U, Half>)
    return ElementType::kHalf;
  else if constexpr (std::is_same_v<U, Bfloat16>)
    return ElementType::kBfloat16;
  else if constexpr (std::is_same_v<U, std::int32_t>)
    return ElementType::kInt32;
  else if constexpr (std::is_same_v<U, std::int64_t>)
    return ElementType::kInt64;
  else {
    static_assert(std::is_same_v<U, std::uint8_t>,
                  "collectives move float, double, Half, Bfloat16, int32, int64 and uint8");
    return ElementType::kUint8;
  }
}

// An array whose element type is known at run time only. Does not own.
struct View {
  View() = default;
  View(ElementType element, void* memory, std::size_t elements) : type(element), data(memory), count(elements) {}
  template <typename T, std::size_t N>
  requires(!std::is_const_v<T>) View(std::span<T, N> span)  // NOLINT: spans are views
      : View(element_type<T>(), span.data(), span.size()) {}

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data), count * size_of(type)}; }

  ElementType type = ElementType::kUint8;
  void* data = nullptr;
  std::size_t count = 0;
};

struct ConstView {
  ConstView() = default;
  ConstView(ElementType element, const void* memory, std::size_t elements)
      : type(element), data(memory), count(elements) {}
  ConstView(const View& view) : ConstView(view.type, view.data, view.count) {}  // NOLINT: as spans
  template <typename T, std::size_t N>
  ConstView(std::span<T, N> span)  // NOLINT: spans are views
      : ConstView(element_type<T>(), span.data(), span.size()) {}

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data), count * size_of(type)}; }

  ElementType type = ElementType::kUint8;
  const void* data = nullptr;
  std::size_t count = 0;
};

}  // namespace muster::comm
