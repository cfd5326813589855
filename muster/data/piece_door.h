// How a worker gets at pieces of shards that its host may not have: through whoever fetches them for the host. The
// fetching itself is behind it (depot.h; control/depot_client.h reaches it from a worker).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/data/piece_map.h"
#include "muster/data/shard_calls.h"

namespace muster::data {

struct DepotView {
  ShardCatalog catalog{};
  std::filesystem::path cache{};  // folder in which pieces lie that are there (piece_cache.h)
  std::uint64_t piece_bytes = 0;  // for ShardPieces
};

// Thread safety: every method from any thread.
class PieceDoor {
 public:
  virtual ~PieceDoor() = default;
  // Waits until some host of the job has the data. Throws kNotFound (none does), kPeerLost, kTimeout, kDamaged.
  virtual DepotView open(const Deadline& deadline) = 0;
  // The piece as it is on a host that has it; its checksum was compared. Throws kIo (no host gives it), kTimeout,
  // kPeerLost.
  virtual std::vector<std::byte> fetch(const PieceId& piece, const Deadline& deadline) = 0;
  // They are about to be read, in this order. Returns at once; nothing is promised.
  virtual void expect(std::span<const PieceId> pieces) = 0;
  // Of a job whose lanes have samples of their own: all that lane `lane` of `lanes` reads. Whoever keeps a part of the
  // data places it by that. Nothing is promised.
  virtual void place_lane(std::size_t lane, std::size_t lanes, std::span<const PieceRun> runs) {
    static_cast<void>(lane);
    static_cast<void>(lanes);
    static_cast<void>(runs);
  }
};

}  // namespace muster::data
