// Virtual shards: the fixed pieces that a data set is cut into, so that placing data is placing shards.
//
// The number of shards is a job constant, far above the number of members, and no member appears here: who comes or
// goes moves whole shards and never cuts anew. Every sample is in exactly one shard.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::data {

// A value, immutable. Thread safety: any number of threads at once.
class Shards {
 public:
  // Consecutive sample ids, sizes that differ by at most one, longer shards first. Computed: nothing is stored.
  // REQUIRES: count > 0.
  static Shards consecutive(std::uint64_t samples, std::uint64_t count);
  // Sample i lies in shard shard_of[i]; inside a shard samples keep their order. Shards may be empty.
  // REQUIRES: every entry below `count`.
  static Shards listed(std::span<const std::uint32_t> shard_of, std::uint64_t count);

  std::uint64_t count() const { return count_; }
  std::uint64_t samples() const { return samples_; }
  // REQUIRES: shard < count().
  std::uint64_t size(std::uint64_t shard) const { return begin(shard + 1) - begin(shard); }
  std::vector<double> sizes() const;
  // The id of the index-th sample of the shard. REQUIRES: index < size(shard).
  std::uint64_t sample(std::uint64_t shard, std::uint64_t index) const;

 private:
  Shards(std::uint64_t samples, std::uint64_t count) : samples_(samples), count_(count) {}
  std::uint64_t begin(std::uint64_t shard) const;

  std::uint64_t samples_;
  std::uint64_t count_;
  std::vector<std::uint64_t> begins_;  // of listed shards in ids_, and the end of the last; empty: consecutive
  std::vector<std::uint64_t> ids_;
};

}  // namespace muster::data
