// Chunks that a server holds, whatever they are: to be copied, filled, written down and dropped all alike. What a kind
// of chunk understands besides is in shard.h, book.h and table_shard.h.
//
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::strategies {

class ChunkStore {
 public:
  ChunkStore() = default;
  ChunkStore(const ChunkStore&) = delete;
  ChunkStore& operator=(const ChunkStore&) = delete;
  virtual ~ChunkStore() = default;

  virtual bool has(std::uint32_t chunk) const = 0;
  // The whole state, all that write() needs to make the same of it elsewhere. The chunk need not be there for write(),
  // nor for drop(). write() throws kDamaged or kMismatch for what is not a state of this chunk.
  // REQUIRES, but for these two: has(chunk).
  virtual std::vector<std::byte> read(std::uint32_t chunk) const = 0;
  virtual void write(std::uint32_t chunk, std::span<const std::byte> state) = 0;
  virtual void drop(std::uint32_t chunk) = 0;
  // Updates that it has had.
  virtual std::uint64_t version(std::uint32_t chunk) const = 0;
  // The number that the client's next own update of it has.
  virtual std::uint64_t next_update(std::uint32_t chunk, std::uint32_t client) const = 0;
};

}  // namespace muster::strategies
