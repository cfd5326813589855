// Chunks: consecutive whole blocks of the flat layout, the pieces in which sums of gradients travel between hosts.
//
// The grid is a function of the layout alone. On every host each chunk has an owner among the workers, which sends and
// receives for it, and a worker's slice is its chunks; one of the hosts reduces it. All of it is pure: every worker
// knows what every other one does without asking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/compute/slice_update.h"
#include "muster/control/job_generation.h"
#include "muster/model/flat_layout.h"

namespace muster::strategies {

// A layout is cut into about so many chunks, if they are long enough for a network (64 KiB) and short enough that the
// sums of one are made while those before it travel (1 MiB). Part of no result.
constexpr std::uint64_t kUsualChunks = 64;
constexpr std::uint64_t kLeastChunkFloats = std::uint64_t{16} * 1024;
constexpr std::uint64_t kMostChunkFloats = std::uint64_t{256} * 1024;

class ChunkGrid {
 public:
  // `layout` must outlive it.
  explicit ChunkGrid(const model::FlatLayout& layout);

  std::size_t size() const { return chunks_.size(); }
  const compute::BlockRange& blocks(std::size_t chunk) const { return chunks_[chunk]; }
  // Flat positions.
  std::uint64_t begin(std::size_t chunk) const;
  std::uint64_t end(std::size_t chunk) const;

  // The chunks of worker `index` of `workers` on a host, [first, last): consecutive, and about as many floats for each.
  struct Share {
    std::size_t first = 0;
    std::size_t last = 0;
  };
  Share share_of(std::size_t index, std::size_t workers) const;
  // The same as blocks.
  compute::BlockRange slice_of(std::size_t index, std::size_t workers) const;

 private:
  const model::FlatLayout* layout_;
  std::vector<compute::BlockRange> chunks_;
};

// The place of the host that adds the sums of a chunk: hosts take turns.
inline std::size_t reducing_host(std::size_t chunk, std::size_t hosts) {
  return chunk % hosts;
}

}  // namespace muster::strategies
