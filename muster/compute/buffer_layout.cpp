// Lanes' buffers are merged by the tree that sums gradients. Where all lanes agree the value is kept as it is: a mean
// of equal numbers may differ from them in its last bit.
#include "muster/compute/buffer_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "muster/base/check.h"

namespace muster::compute {
namespace {

constexpr std::size_t kAlignment = 64;

// Sum over lanes [first, last) by the same tree as gradients: the left part is the largest power of two below the
// count.
template <typename Value>
double tree_sum(std::size_t first, std::size_t last, const Value& value) {
  if (last - first == 1) return value(first);
  const std::size_t middle = first + std::bit_floor(last - first - 1);
  return tree_sum(first, middle, value) + tree_sum(middle, last, value);
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The upper half of a float's bits; made of one by rounding to the nearest, ties to even.
struct Bfloat16 {
  Bfloat16() = default;
  explicit Bfloat16(double value) {
    const auto bits32 = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    const bool nan = value != value;
    bits = nan ? std::uint16_t{0x7fc0} : static_cast<std::uint16_t>((bits32 + 0x7fff + ((bits32 >> 16) & 1)) >> 16);
  }
  explicit operator double() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  std::uint16_t bits = 0;
};

template <typename T>
void merge_floats(const BufferSlot& slot, std::span<const std::span<const std::byte>> lanes,
                  std::span<const double> weights, std::span<std::byte> out) {
  for (std::size_t at = slot.offset; at < slot.offset + slot.bytes; at += sizeof(T)) {
    T merged = load<T>(lanes[0], at);
    const bool agree = std::all_of(lanes.begin(), lanes.end(), [&](std::span<const std::byte> lane) {
      return std::memcmp(lane.data() + at, lanes[0].data() + at, sizeof(T)) == 0;
    });
    if (!agree) {
      merged = static_cast<T>(tree_sum(0, lanes.size(), [&](std::size_t lane) {
        return weights[lane] * static_cast<double>(load<T>(lanes[lane], at));
      }));
    }
    std::memcpy(out.data() + at, &merged, sizeof(T));
  }
}

}  // namespace

void BufferLayout::add(std::string name, model::Dtype dtype, std::vector<std::int64_t> shape, std::size_t size) {
  slots.push_back({std::move(name), dtype, std::move(shape), bytes, size});
  bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
}

void merge_buffers(const BufferLayout& layout, std::span<const std::span<const std::byte>> lanes,
                   std::span<const double> weights, std::span<std::byte> out) {
  MUSTER_CHECK(!lanes.empty() && lanes.size() == weights.size(), "one weight a lane");
  for (const BufferSlot& slot : layout.slots) {
    if (slot.dtype == model::Dtype::kF32) {
      merge_floats<float>(slot, lanes, weights, out);
    } else if (slot.dtype == model::Dtype::kF64) {
      merge_floats<double>(slot, lanes, weights, out);
    } else if (slot.dtype == model::Dtype::kBf16) {
      merge_floats<Bfloat16>(slot, lanes, weights, out);
    } else {
      std::copy_n(lanes[0].data() + slot.offset, slot.bytes, out.data() + slot.offset);
    }
  }
}

}  // namespace muster::compute
