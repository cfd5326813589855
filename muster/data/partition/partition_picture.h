// A partition as text: a line for each lane, a column for each shard. What `muster data partition` prints.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/data/partition/partition.h"

namespace muster::data {

struct DrawingOptions {
  std::uint64_t workers = 1;                  // worker r of n computes lanes r, r + n, ...
  std::span<const std::int64_t> labels = {};  // of all samples: how many of each a lane has; empty: not shown
};

// A column is '#' in the line of the lane that draws from the shard. With more than 96 shards neighbours share a
// column, '+' where a lane has some of them. REQUIRES: every shard is placed on one of `lanes` lanes; labels from 0.
std::string draw_partition(const LaneShards& partition, std::uint64_t lanes, const DrawingOptions& options);

}  // namespace muster::data
