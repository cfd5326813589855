// Packing: any data set written as packed shards (packed_format.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/data/dataset.h"
#include "muster/data/images.h"
#include "muster/data/packed_format.h"

namespace muster::data {

struct PackOptions {
  std::uint64_t shards = 0;                              // 0: as many as shard_bytes asks for
  std::uint64_t shard_bytes = std::uint64_t{256} << 20;  // of a shard, about
  int threads = 1;                                       // that read samples; the shards' bytes do not depend on it
  std::optional<PackedElement> element = {};             // of floats: kU8 or kF32. Empty: bytes where nothing is lost
  bool round = false;                                    // kU8: to the nearest of 256 levels, as resized pictures need
  std::function<void(std::uint64_t done)> progress = {};
};

struct PackResult {
  std::uint64_t samples = 0;
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;
  PackedElement element = PackedElement::kF32;
};

// Writes the data set as set-NNNNN-of-NNNNN.pack files in `folder`, each of which appears when it is whole, in the
// order of its samples. `normalization` is what the source applied to pictures of bytes: with it they can be stored as
// the bytes they were, and come back as the same floats, bit for bit.
// Throws kInvalidInput (no samples; shards of this set are there already; more than 512 shards), kMismatch (bytes were
// asked for, and a sample is not made of them, or does not lie within them if it may be rounded), what the data set
// throws, kResource, kIo.
PackResult pack(const std::shared_ptr<const Dataset>& dataset, const Normalization& normalization,
                const std::filesystem::path& folder, const std::string& set, const PackOptions& options = {});

}  // namespace muster::data
