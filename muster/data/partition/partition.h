// A job's data.partition: how the training set is cut into shards, and which lane each shard belongs to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/partition/placement.h"
#include "muster/data/partition/shards.h"

namespace muster::data {

// As job files name it: consecutive, random, hash, balanced, stratified, dirichlet:ALPHA, file:PATH.
struct PartitionOptions {
  enum class Policy { kConsecutive, kRandom, kHash, kBalanced, kStratified, kDirichlet, kFile };
  Policy policy = Policy::kConsecutive;
  double alpha = 0;                 // of kDirichlet
  std::filesystem::path file = {};  // of kFile: lines "lane0: 0-15"
};

// Throws Error{kInvalidInput}: unknown, or without the value it needs.
PartitionOptions parse_partition(std::string_view word);

// Shards of a lane on average, but for dirichlet, whose lanes have one each: that is what makes them differ.
inline constexpr std::uint64_t kShardsPerLane = 16;

struct LaneShards {
  Shards shards;
  Placement lane_of;
};

// `labels` is called only by the policies that cut by label. Throws Error{kInvalidInput}, and what reading a file
// throws. REQUIRES: samples > 0, lanes > 0; one label for each sample.
LaneShards partition_lanes(const PartitionOptions& options, std::uint64_t samples, std::uint64_t lanes,
                           std::uint64_t seed, const std::function<std::vector<std::int64_t>()>& labels);

// The labels of all samples: once at the start, for those who need them all. Throws
// Error{kInvalidInput} if samples have no class, and what reading throws.
std::vector<std::int64_t> read_labels(const Dataset& dataset);

}  // namespace muster::data
