// Tiles of 4 KiB go through the whole tree before the next, so that partial sums stay in the first cache and memory is
// read once. How tiles are cut changes no bit: an element's additions are the tree's.
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

// Sums one tile of parts of the tree, all of which are there. Partial sums live in `partial_`, a level each.
class TileSum {
 public:
  explicit TileSum(std::span<const TreePart> parts) : parts_(parts) {}

  // The sum of parts [begin, end), which lie in the node [lo, hi), at [offset, offset + count): in `sum`, or the only
  // part's own memory. REQUIRES: at least one part.
  const float* tree(std::size_t lo, std::size_t hi, std::size_t begin, std::size_t end, std::size_t offset,
                    std::size_t count, float* sum, std::size_t level = 0) {
    if (end - begin == 1) return parts_[begin].sum + offset;
    const std::size_t middle = lo + std::bit_floor(hi - lo - 1);
    std::size_t split = begin;
    while (split < end && parts_[split].lanes.first < middle)
      ++split;
    if (split == end) return tree(lo, middle, begin, end, offset, count, sum, level);
    if (split == begin) return tree(middle, hi, begin, end, offset, count, sum, level);
    const float* left = tree(lo, middle, begin, split, offset, count, partial_[level].data(), level + 1);
    const float* right = tree(middle, hi, split, end, offset, count, partial_[level + 1].data(), level + 2);
    add_tile(left, right, sum, count);
    return sum;
  }

 private:
  std::span<const TreePart> parts_;
  alignas(64) std::array<std::array<float, kTileFloats>, kLevels> partial_;
};

void find_subtrees(std::size_t lo, std::size_t hi, std::size_t first, std::size_t last, std::vector<Subtree>& found) {
  if (last <= lo || hi <= first) return;
  if (first <= lo && hi <= last) {
    found.push_back({lo, hi});
    return;
  }
  const std::size_t middle = lo + std::bit_floor(hi - lo - 1);
  find_subtrees(lo, middle, first, last, found);
  find_subtrees(middle, hi, first, last, found);
}

}  // namespace

std::vector<Subtree> subtrees_of(std::size_t lanes, std::size_t first, std::size_t last) {
  MUSTER_CHECK(first <= last && last <= lanes, "a range of the lanes");
  std::vector<Subtree> found;
  if (first < last) find_subtrees(0, lanes, first, last, found);
  return found;
}

std::span<const float> reduce_parts(std::span<const TreePart> parts, std::size_t lanes, std::span<float> scratch) {
  MUSTER_CHECK(lanes <= kMaxLanes && parts.size() <= lanes, "more lanes than a step can have");
  std::array<TreePart, kMaxLanes> there;
  std::size_t count = 0;
  for (const TreePart& part : parts) {
    if (part.sum != nullptr) there[count++] = part;
  }
  if (count == 0) return {};
  if (count == 1) return {there[0].sum, scratch.size()};
  TileSum tiles{std::span<const TreePart>(there.data(), count)};
  for (std::size_t begin = 0; begin < scratch.size(); begin += kTileFloats)
    tiles.tree(0, lanes, 0, count, begin, std::min(kTileFloats, scratch.size() - begin), scratch.data() + begin);
  return scratch;
}

std::span<const float> reduce_lanes(std::span<const float* const> lanes, std::size_t offset, std::span<float> scratch) {
  MUSTER_CHECK(lanes.size() <= kMaxLanes, "more lanes than a step can have");
  std::array<TreePart, kMaxLanes> parts;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    parts[lane] = {{lane, lane + 1}, lanes[lane] == nullptr ? nullptr : lanes[lane] + offset};
  return reduce_parts({parts.data(), lanes.size()}, lanes.size(), scratch);
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
