// States of chunks that travel in pieces, since they may be longer than a message: those that clients read, and those
// that servers are given.
//
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "muster/strategies/parameter_server/chunk_store.h"

namespace muster::strategies {

// All pieces that a client reads are of one state, whatever is pushed meanwhile.
class StatesRead {
 public:
  struct Piece {
    std::uint64_t version = 0;  // of the state
    std::uint64_t total = 0;    // bytes of it
    std::span<const std::byte> bytes{};
    bool last = false;  // there are no more
  };
  // From `offset` on, at most `most` bytes, which are valid until the client is asked for again or forgotten. Nothing
  // when the state is shorter.
  std::optional<Piece> piece(std::uint32_t client, const ChunkStore& chunks, std::uint32_t chunk, std::uint64_t offset,
                             std::size_t most);
  void forget(std::uint32_t client) { reading_.erase(client); }

 private:
  struct Reading {
    std::uint32_t chunk = 0;
    std::uint64_t version = 0;
    std::vector<std::byte> state{};
  };
  std::map<std::uint32_t, Reading> reading_;  // by client
};

class StatesArriving {
 public:
  // The state that this piece completes, if it does. Throws kDamaged for a piece that is not the next one.
  std::optional<std::vector<std::byte>> add(std::uint32_t chunk, std::uint64_t offset, std::uint64_t total,
                                            std::span<const std::byte> piece);

 private:
  std::map<std::uint32_t, std::vector<std::byte>> arriving_;  // by chunk
};

}  // namespace muster::strategies
