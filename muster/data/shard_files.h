// The packed shards of a folder, for hosts that have none: read where they lie, and nothing else of the disk.
//
// The fingerprint covers name and size of every shard, its whole header, and the stored checksums of 1,024 records of
// each set, evenly spread. A change of another record that leaves header and size alone is not noticed by it.
// Thread safety: every method from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/data/shard_calls.h"

namespace muster::data {

class ShardFiles final : public ShardCalls {
 public:
  // All sets that are whole. Throws as PackedDataset; kNotFound when there is no set train.
  explicit ShardFiles(const std::filesystem::path& folder);

  ShardCatalog catalog(const Deadline& deadline) override;
  std::vector<std::byte> read(const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes,
                              const Deadline& deadline) override;

 private:
  // Constant after construction.
  std::filesystem::path folder_;
  ShardCatalog catalog_;
  std::vector<OpenFile> files_;  // as in the catalog
};

}  // namespace muster::data
