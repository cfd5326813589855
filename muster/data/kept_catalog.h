// What a host that keeps a part of a job's data remembers on its disk: which shards there are, and their headers. With
// it such hosts can go on without the one that once had all of it.
//
// Two files in the folder of the pieces (piece_cache.h), each written under another name and renamed: fronts.bin, the
// headers one after the other, and then catalog.json with names, sizes and the SHA-256 of fronts.bin. No torch here.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/shard_calls.h"

namespace muster::data {

struct KeptCatalog {
  std::string name{};  // by what the job calls the data
  ShardCatalog catalog{};
  std::vector<std::vector<std::byte>> fronts{};  // what stands before the records of each shard
};

// Throws kIo.
void remember_catalog(const std::filesystem::path& folder, const KeptCatalog& kept);
// Of the folders in `above` the newest one with that name. Nothing: there is none that is whole, and this user's own.
std::optional<KeptCatalog> find_catalog(const std::filesystem::path& above, const std::string& name);

}  // namespace muster::data
