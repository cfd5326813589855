// Consecutive shards are arithmetic;
// listed ones carry the ids of their samples. Both look the same from outside.
#include "muster/data/partition/shards.h"

#include <algorithm>

#include "muster/base/check.h"

namespace muster::data {

Shards Shards::consecutive(std::uint64_t samples, std::uint64_t count) {
  MUSTER_CHECK(count > 0, "a data set is cut into at least one shard");
  return Shards(samples, count);
}

Shards Shards::listed(std::span<const std::uint32_t> shard_of, std::uint64_t count) {
  MUSTER_CHECK(count > 0, "a data set is cut into at least one shard");
  Shards shards(shard_of.size(), count);
  shards.begins_.assign(count + 1, 0);
  for (const std::uint32_t shard : shard_of) {
    MUSTER_CHECK(shard < count, "a sample in a shard that is not there");
    ++shards.begins_[shard + 1];
  }
  for (std::uint64_t shard = 0; shard < count; ++shard)
    shards.begins_[shard + 1] += shards.begins_[shard];
  shards.ids_.resize(shard_of.size());
  std::vector<std::uint64_t> next(shards.begins_.begin(), shards.begins_.end() - 1);
  for (std::uint64_t id = 0; id < shard_of.size(); ++id)
    shards.ids_[next[shard_of[id]]++] = id;
  return shards;
}

std::uint64_t Shards::begin(std::uint64_t shard) const {
  MUSTER_CHECK(shard <= count_, "a shard beyond the last");
  if (!begins_.empty()) return begins_[shard];
  return samples_ / count_ * shard + std::min(shard, samples_ % count_);
}

std::vector<double> Shards::sizes() const {
  std::vector<double> sizes;
  sizes.reserve(count_);
  for (std::uint64_t shard = 0; shard < count_; ++shard)
    sizes.push_back(static_cast<double>(size(shard)));
  return sizes;
}

std::uint64_t Shards::sample(std::uint64_t shard, std::uint64_t index) const {
  MUSTER_CHECK(index < size(shard), "a sample beyond its shard");
  const std::uint64_t place = begin(shard) + index;
  return begins_.empty() ? place : ids_[place];
}

}  // namespace muster::data
