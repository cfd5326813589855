#include "muster/compute/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "muster/base/check.h"
#include "muster/base/kernel.h"

namespace muster::compute {
namespace {

// 4 KiB of each lane at a time: partial sums stay in the first cache levels, so memory is read once however
// deep the tree.
constexpr std::size_t kTileFloats = 1024;
// tree() puts its left part one level up and its right part two, and 64 lanes are 6 levels of splitting.
constexpr std::size_t kLevels = 12;

MUSTER_KERNEL void add_tile(const float* __restrict left, const float* __restrict right, float* __restrict sum,
                            std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    sum[i] = left[i] + right[i];
}

// Sums one tile of many lanes. Partial sums live in `partial_`, a level each.
class TileSum {
 public:
  explicit TileSum(std::span<const float* const> lanes) : lanes_(lanes) {}

  // Whether any of lanes [lo, hi) is there.
  bool present(std::size_t lo, std::size_t hi) const {
    return std::any_of(lanes_.begin() + static_cast<std::ptrdiff_t>(lo),
                       lanes_.begin() + static_cast<std::ptrdiff_t>(hi), [](const float* lane) { return lane; });
  }

  // The sum of lanes [lo, hi) at [offset, offset + count): in `sum`, or the only lane's own memory.
  // REQUIRES: present(lo, hi).
  const float* tree(std::size_t lo, std::size_t hi, std::size_t offset, std::size_t count, float* sum,
                    std::size_t level = 0) {
    if (hi - lo == 1) return lanes_[lo] + offset;
    const std::size_t middle = lo + std::bit_floor(hi - lo - 1);
    if (!present(middle, hi)) return tree(lo, middle, offset, count, sum, level);
    if (!present(lo, middle)) return tree(middle, hi, offset, count, sum, level);
    const float* left = tree(lo, middle, offset, count, partial_[level].data(), level + 1);
    const float* right = tree(middle, hi, offset, count, partial_[level + 1].data(), level + 2);
    add_tile(left, right, sum, count);
    return sum;
  }

 private:
  std::span<const float* const> lanes_;
  alignas(64) std::array<std::array<float, kTileFloats>, kLevels> partial_;
};

}  // namespace

std::span<const float> reduce_lanes(std::span<const float* const> lanes, std::size_t offset, std::span<float> scratch) {
  MUSTER_CHECK(lanes.size() <= kMaxLanes, "more lanes than a step can have");
  const auto absent = static_cast<std::size_t>(std::count(lanes.begin(), lanes.end(), nullptr));
  if (absent == lanes.size()) return {};
  if (absent + 1 == lanes.size()) {
    const float* only = *std::find_if(lanes.begin(), lanes.end(), [](const float* lane) { return lane; });
    return {only + offset, scratch.size()};
  }
  TileSum tiles(lanes);
  for (std::size_t begin = 0; begin < scratch.size(); begin += kTileFloats) {
    const std::size_t count = std::min(kTileFloats, scratch.size() - begin);
    tiles.tree(0, lanes.size(), offset + begin, count, scratch.data() + begin);
  }
  return scratch;
}

namespace {

constexpr std::size_t kAccumulators = 16;

MUSTER_KERNEL double sum_of_squares(const float* block, std::size_t count) {
  double sums[kAccumulators] = {};
  const std::size_t whole = count - count % kAccumulators;
  for (std::size_t i = 0; i < whole; i += kAccumulators) {
    for (std::size_t j = 0; j < kAccumulators; ++j) {
      const double value = block[i + j];
      sums[j] += value * value;
    }
  }
  for (std::size_t i = whole; i < count; ++i) {
    const double value = block[i];
    sums[i - whole] += value * value;
  }
  for (std::size_t width = kAccumulators / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j)
      sums[j] += sums[j + width];
  }
  return sums[0];
}

}  // namespace

BlockSum examine(std::span<const float> block) {
  // The square of a finite float is at most 1.2e77, so a sum of them cannot leave the range of double, and nothing
  // that is added to an infinity or a NaN makes it finite again: the sum is finite exactly when every element is.
  const double squares = sum_of_squares(block.data(), block.size());
  return {squares, std::isfinite(squares)};
}

double combine(std::span<const double> block_sums) {
  double sum = 0;
  for (const double block_sum : block_sums)
    sum += block_sum;
  return sum;
}

}  // namespace muster::compute
