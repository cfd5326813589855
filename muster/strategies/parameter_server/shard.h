// A shard: the chunks that one server holds, and what updates do to them. Knows nothing of other servers.
//
// A chunk has two buffers, for version v and the one that the next update writes; a pull reads the committed one while
// the server goes on (transport.h, guard). An update either is applied as it comes, or is a lane of a step that is
// kept until the step is closed: then the lanes are summed by the tree, and the version is the step's.
//
// Thread safety: one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "muster/comm/region.h"
#include "muster/strategies/parameter_server/applied_set.h"
#include "muster/strategies/parameter_server/chunk_store.h"
#include "muster/strategies/parameter_server/message.h"
#include "muster/strategies/parameter_server/own_update.h"
#include "muster/strategies/parameter_server/server_plan.h"

namespace muster::strategies {

class Shard final : public ChunkStore {
 public:
  // Bytes that a shard of all chunks would take; pages that are not used cost nothing.
  static std::size_t memory_bytes(const ServerPlan& plan);
  // `memory` is zero, aligned to 4096 bytes, and outlives the shard.
  // With an `own` update there are no synchronous steps: they are refused.
  Shard(const ServerPlan& plan, std::span<std::byte> memory, OwnUpdate own = {});
  ~Shard() override;

  const std::vector<ServerChunk>& chunks() const { return chunks_; }
  bool has(std::uint32_t chunk) const override { return held_.count(chunk) > 0; }

  struct View {
    std::span<const float> parameters;
    std::uint64_t version;
    const std::atomic<std::uint64_t>* guard;
    std::uint64_t limit;  // of the guard, while the view is right
  };
  // REQUIRES, of all that follow unless they say else: has(chunk).
  View view(std::uint32_t chunk) const;
  std::uint64_t version(std::uint32_t chunk) const override;
  // The lanes that it has seen; and: all steps below are closed.
  const AppliedSet& lanes(std::uint32_t chunk) const;
  std::uint64_t floor(std::uint32_t chunk) const;

  std::uint64_t next_update(std::uint32_t chunk, std::uint32_t client) const override;

  // Of a lane, or the client's own. Gives kDone, kDuplicate, kLate or kRefused (a body of the wrong length).
  Status push(std::uint32_t chunk, const PushLaneRequest& push, std::span<const std::byte> body);
  Status push(std::uint32_t chunk, std::uint32_t client, const PushUpdateRequest& push,
              std::span<const std::byte> body);
  // Of the chunk's blocks. Empty when a lane is missing.
  std::vector<compute::BlockSum> records(std::uint32_t chunk, const RecordsRequest& wanted);
  // Gives kDone, kDuplicate or kRefused (a lane is missing).
  Status apply(std::uint32_t chunk, const ApplyRequest& verdict);

  // The state: the length of what chunk_state.h packs, that, records, and lanes that are kept.
  std::vector<std::byte> read(std::uint32_t chunk) const override;
  void write(std::uint32_t chunk, std::span<const std::byte> state) override;
  void drop(std::uint32_t chunk) override;
  // Of such a state: what chunk_state.h packs; and back, without lanes that are kept.
  static std::span<const std::byte> packed_part(std::span<const std::byte> state);
  static std::vector<std::byte> first_state(std::span<const std::byte> packed);

 private:
  struct Held;

  compute::Version flat(Held& held, std::uint64_t version) const;
  void mark_present(const ServerChunk& chunk, bool some_absent, std::span<const std::byte> body,
                    std::span<std::uint8_t> present) const;
  Status keep(Held& held, const ServerChunk& chunk, const PushLaneRequest& push, std::span<const std::byte> body);
  void change(Held& held, const ServerChunk& chunk, std::span<const std::byte> body, double rate, double scale);
  void update(Held& held, const ServerChunk& chunk, std::span<const compute::LaneGradient> lanes, double rate,
              double scale);
  void own_update(Held& held, const ServerChunk& chunk, std::span<const float> gradient, double rate, double scale);
  void begin_next(Held& held) const;
  void reduce(Held& held, const ServerChunk& chunk, std::uint64_t step, std::uint64_t mask);
  std::vector<compute::LaneGradient> lanes_of(const Held& held, std::uint64_t mask) const;
  float* lane_floats(std::uint32_t lane);
  void read_kept(Held& held, const ServerChunk& chunk, ByteReader& reader);

  // Constant after construction.
  const ServerPlan& plan_;
  const std::vector<ServerChunk> chunks_;
  const std::unique_ptr<const compute::Optimizer> optimizer_;
  const std::size_t slots_;
  std::span<std::byte> memory_;
  const OwnUpdate own_;
  // What moves.
  std::map<std::uint32_t, std::unique_ptr<Held>> held_;
  std::uint64_t writes_ = 0;
  std::vector<std::optional<comm::SharedRegion>> lanes_;  // kept gradients, one flat array a lane, made when used
  std::vector<compute::BlockSum> records_;                // scratch, flat
  std::vector<compute::Norms> norms_;                     // scratch, flat
  std::vector<std::uint8_t> present_;                     // scratch
  std::vector<float> scaled_;                             // scratch
};

}  // namespace muster::strategies
