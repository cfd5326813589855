// What a host that has packed shards is asked by one that has not: which there are, and bytes of them. Answered by the
// files themselves (shard_files.h), or by another host over a network (control/shard_client.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/deadline.h"

namespace muster::data {

struct ShardEntry {
  std::string name;  // "train-00003-of-00016.pack"
  std::uint64_t bytes = 0;
  bool operator==(const ShardEntry&) const = default;
};

// The shards of all sets of a folder, by name.
struct ShardCatalog {
  std::string print{};  // fingerprint; hosts with the same one have the same data
  std::vector<ShardEntry> shards{};
  std::uint64_t bytes() const;
  bool operator==(const ShardCatalog&) const = default;
};

// What one call reads at most: a header, or a record, of the longest kind.
inline constexpr std::uint64_t kMostShardRead = std::uint64_t{80} << 20;
inline constexpr std::size_t kMostCatalogShards = 3 * 512;  // of a catalog

// Throws kDamaged, with `where`: too many shards, names that are none (a path, another ending), two of one name, a
// print that is no hexadecimal number of 16 digits, sizes that no file has.
void check_catalog(const ShardCatalog& catalog, const std::string& where);

// Thread safety: every method from any thread.
class ShardCalls {
 public:
  virtual ~ShardCalls() = default;
  // Throws kPeerLost, kTimeout, kDamaged (it makes no sense), kIo.
  virtual ShardCatalog catalog(const Deadline& deadline) = 0;
  // Bytes of the shard at a place of the catalog. Throws likewise, and kMismatch (it has another catalog now),
  // kInvalidInput (there are no such bytes).
  virtual std::vector<std::byte> read(const std::string& print, std::size_t shard, std::uint64_t offset,
                                      std::uint64_t bytes, const Deadline& deadline) = 0;
};

}  // namespace muster::data
