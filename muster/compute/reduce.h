// Reductions whose bits do not depend on who computes them: sums over lanes, and sums over the elements of a block.
//
// Lanes are added by a fixed balanced binary tree over lane numbers. tree(lo, hi) of n = hi - lo lanes is the
// lane itself for n = 1, else tree(lo, mid) + tree(mid, hi) with mid = lo + the largest power of two below n:
//   3 lanes: (0 + 1) + 2      7 lanes: ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)
// A host that owns an aligned subtree therefore sends one partial sum, and several hosts give the bits of
// one. A lane without a gradient for a tensor is absent, not zero: tree(x, absent) = x. Pure functions, safe
// from any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace muster::compute {

constexpr std::size_t kMaxLanes = 64;

// The tree sum of lanes[k][offset .. offset + scratch.size()) over the lanes that are not null. When only one
// is there, nothing is copied and the result is that lane's own memory; when none is, the result is empty;
// otherwise it is scratch. REQUIRES: at most kMaxLanes lanes; scratch overlaps no lane.
std::span<const float> reduce_lanes(std::span<const float* const> lanes, std::size_t offset, std::span<float> scratch);

// Lanes [first, last) as a node of the tree.
struct Subtree {
  std::size_t first = 0;
  std::size_t last = 0;

  bool operator==(const Subtree&) const = default;
};

// The largest nodes of the tree over `lanes` lanes that lie in [first, last), in order: they cover that range, and
// whoever has their sums needs nothing else of its lanes. None for an empty range. REQUIRES: first <= last <= lanes.
std::vector<Subtree> subtrees_of(std::size_t lanes, std::size_t first, std::size_t last);

// The sum of a node's lanes, if one of them is there.
struct TreePart {
  Subtree lanes;
  const float* sum = nullptr;  // null: absent
};

// The tree sum over `lanes` lanes, given as sums of nodes: the bits of reduce_lanes() over all lanes. Lanes that no
// part has are absent. What is returned is as of reduce_lanes(), at the beginning of the parts' memory. REQUIRES: parts
// are nodes of that tree, in order, and do not overlap; scratch overlaps none of them.
std::span<const float> reduce_parts(std::span<const TreePart> parts, std::size_t lanes, std::span<float> scratch);

struct BlockSum {
  double squares = 0;  // sum of the squares
  bool finite = true;  // no element is infinite or not a number
};

// One pass over a block. `squares` is not finite exactly when `finite` is false.
BlockSum examine(std::span<const float> block);

// The sum of one number a block, left to right: the only order in which block sums may be combined.
double combine(std::span<const double> block_sums);

}  // namespace muster::compute
