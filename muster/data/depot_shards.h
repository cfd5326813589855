// A depot that keeps a part of the data, as other hosts call it: shards of which not all is there. What is not is
// refused with kNotFound, and nothing is fetched for a caller. Thread safety: every method from any thread.
#pragma once

#include <string>
#include <vector>

#include "muster/data/depot.h"
#include "muster/data/shard_calls.h"

namespace muster::data {

class DepotShards final : public ShardCalls {
 public:
  // `depot` outlives it.
  explicit DepotShards(Depot& depot) : depot_(depot) {}

  ShardCatalog catalog(const Deadline&) override { return depot_.catalog(); }
  std::vector<std::byte> read(const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes,
                              const Deadline&) override {
    return depot_.give(print, shard, offset, bytes);
  }

 private:
  Depot& depot_;
};

}  // namespace muster::data
