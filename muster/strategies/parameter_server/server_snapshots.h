// What a server writes down of its chunks, what it begins from when the one before it was lost, and how much was gone
// then. Files: snapshots.h.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/server_map.h"
#include "muster/strategies/parameter_server/server_chunks.h"

namespace muster::strategies {

class ServerSnapshots {
 public:
  // `plan` and `chunks` outlive it; `tell` is for people.
  ServerSnapshots(const ServerPlan& plan, std::uint32_t server, ServerChunks& chunks,
                  std::function<void(const std::string&)> tell)
      : plan_(plan), server_(server), chunks_(chunks), tell_(std::move(tell)) {}

  // Whether servers of this job write down anything at all; if not, nothing below does.
  bool kept() const { return plan_.snapshot_seconds > 0; }
  void write(std::uint32_t chunk);
  // One of the chunks that this server is the primary of, if it is time for it: one at a time, so that nobody waits
  // long.
  void write_next(Clock::Instant now, const control::ServerMap& map);

  // Chunks as they were last written down, but for those that have moved to another server since. Returns those of the
  // layout. Throws kDamaged.
  std::vector<std::uint32_t> restore(const control::ServerMap& map);
  // A client was told of version `seen` of a chunk that was restored.
  void count_loss(std::uint32_t chunk, std::uint64_t seen);
  // What the server has of the chunk now is not what was restored.
  void forget(std::uint32_t chunk) { losses_.erase(chunk); }
  // Updates that a client was told of and that are gone: of all chunks, or of one.
  std::uint64_t lost() const;
  std::uint64_t lost_of(std::uint32_t chunk) const;

 private:
  struct Loss {
    std::uint64_t restored = 0;  // version
    std::uint64_t most = 0;      // updates that are gone
  };

  const ServerPlan& plan_;
  const std::uint32_t server_;
  ServerChunks& chunks_;
  const std::function<void(const std::string&)> tell_;
  std::map<std::uint32_t, Loss> losses_;  // by chunk
  std::uint32_t next_chunk_ = 0;
  Clock::Instant next_{};
};

}  // namespace muster::strategies
