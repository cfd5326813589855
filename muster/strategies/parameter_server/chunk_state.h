// The whole state of a chunk as bytes: how it travels to copies, into snapshots and checkpoints, and back.
//
//   version, applied lanes, applied updates of clients, updates per tensor, parameters, slots of the optimizer
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "muster/strategies/parameter_server/applied_set.h"
#include "muster/strategies/parameter_server/server_plan.h"

namespace muster::strategies {

// The part of a chunk's state that says which updates it has seen.
struct ChunkHistory {
  std::uint64_t version = 0;
  AppliedSet lanes;
  std::map<std::uint32_t, AppliedSet> own{};  // by client

  // The number that the client's next own update has.
  std::uint64_t next_update(std::uint32_t client) const;
  void save(ByteWriter& to) const;
  static ChunkHistory load(ByteReader& from);
};

// Spans of a whole state: flat, as long as the layout.
struct FlatState {
  std::span<float> parameters;
  std::array<std::span<float>, 2> state;
  std::span<std::uint64_t> updates;
};

std::vector<std::byte> pack_chunk(const ServerChunk& chunk, const ChunkHistory& history, const FlatState& from,
                                  std::size_t slots);
// Throws kDamaged when the bytes are not those of this chunk; nothing but the chunk's part of `to` is written.
ChunkHistory unpack_chunk(const ServerChunk& chunk, std::span<const std::byte> bytes, const FlatState& to,
                          std::size_t slots);

}  // namespace muster::strategies
