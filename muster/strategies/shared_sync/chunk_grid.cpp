// Borders between the shares of workers are the first chunks at or after equal parts of the floats, so that shares
// cover all chunks whatever their sizes.
#include "muster/strategies/shared_sync/chunk_grid.h"

#include <algorithm>

namespace muster::strategies {

ChunkGrid::ChunkGrid(const model::FlatLayout& layout) : layout_(&layout) {
  const std::vector<model::Block>& blocks = layout.blocks();
  const std::uint64_t floats = std::clamp(layout.size() / kUsualChunks, kLeastChunkFloats, kMostChunkFloats);
  for (std::size_t first = 0; first < blocks.size();) {
    std::size_t last = first;
    while (last < blocks.size() && blocks[last].begin < blocks[first].begin + floats)
      ++last;
    chunks_.push_back({first, last});
    first = last;
  }
}

std::uint64_t ChunkGrid::begin(std::size_t chunk) const {
  return layout_->blocks()[chunks_[chunk].first].begin;
}

std::uint64_t ChunkGrid::end(std::size_t chunk) const {
  return layout_->blocks()[chunks_[chunk].last - 1].end;
}

ChunkGrid::Share ChunkGrid::share_of(std::size_t index, std::size_t workers) const {
  const auto border = [&](std::size_t part) {
    const std::uint64_t target = layout_->size() * part / workers;
    std::size_t chunk = 0;
    while (chunk < chunks_.size() && begin(chunk) < target)
      ++chunk;
    return part == workers ? chunks_.size() : chunk;
  };
  return {border(index), border(index + 1)};
}

compute::BlockRange ChunkGrid::slice_of(std::size_t index, std::size_t workers) const {
  const Share share = share_of(index, workers);
  if (share.first == share.last) return {};
  return {chunks_[share.first].first, chunks_[share.last - 1].last};
}

}  // namespace muster::strategies
