// Shards cut by label: stratified (every shard looks like the whole) or skewed (every shard has labels of its own), as
// the data of federated clients does.
#pragma once

#include <cstdint>
#include <span>

#include "muster/data/partition/shards.h"

namespace muster::data {

// Every label's samples are dealt out one by one, in a seeded order: of each label any two shards hold numbers that
// differ by at most one, and so do the sizes of the shards. REQUIRES: count > 0, labels not negative.
Shards stratified_shards(std::span<const std::int64_t> labels, std::uint64_t count, std::uint64_t seed);

// Every label is spread over the shards in parts drawn from Dirichlet(alpha): 100 is nearly even, 0.1 gives most of a
// label to one or two shards. Shards may be empty. REQUIRES: count > 0, alpha > 0, labels not negative.
Shards dirichlet_shards(std::span<const std::int64_t> labels, std::uint64_t count, double alpha, std::uint64_t seed);

// How far shards are from the whole: the mean over samples of the distance (half the sum of absolute differences, 0 ..
// 1) between the parts of the labels in the sample's shard and in all of the data. 0: stratified.
double label_skew(const Shards& shards, std::span<const std::int64_t> labels);

}  // namespace muster::data
