// Shards: which part of a tensor is whose, where the workers of a team compute a model together (tensor parallelism).
//
// A tensor is divided along one dimension, into ranges whose lengths differ by one unit at most. A shard is a view of
// the whole tensor's memory, so whoever holds the whole holds all shards: nothing is stored twice. Pure; no torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::model {

// How a parameter or buffer is divided.
struct Split {
  std::string name{};
  std::int64_t dimension = 0;  // along which
  std::int64_t groups = 1;     // so many equal runs lie there, each of which is divided: queries, keys, values
  std::int64_t unit = 1;       // only whole multiples of it are given: the channels of a head
};

// A member's part of so many things in a row.
struct Share {
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool operator==(const Share&) const = default;
};
// Of `size` in units. REQUIRES: member < members; unit divides size.
Share share_of(std::int64_t size, std::int64_t unit, std::size_t member, std::size_t members);

// A member's part of a tensor, as a view of the whole.
struct Shard {
  std::int64_t offset = 0;  // of its first element
  std::vector<std::int64_t> sizes{};
  std::vector<std::int64_t> strides{};

  std::int64_t count() const;  // elements
  // Whether its elements lie one behind the other.
  bool is_contiguous() const;
};
// Of a contiguous tensor. With several groups the divided dimension becomes two: groups x the part of each. REQUIRES:
// the split fits the shape.
Shard shard_of(const Split& split, std::span<const std::int64_t> shape, std::size_t member, std::size_t members);

}  // namespace muster::model
