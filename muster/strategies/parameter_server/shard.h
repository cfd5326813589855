// A shard: the chunks that one server holds, and what updates do to them. Knows nothing of other servers.
//
// A chunk has two buffers, for version v and the one that the next update writes; a pull reads the committed one while
// the server goes on (transport.h, guard). An update either is applied as it comes, or is a lane of a step that is
// kept until the step is closed: then the lanes are summed by the tree, and the version is the step's.
//
// Thread safety: one thread. Headers, by verb:
//   kPush       chunk, step, lane, first = lanes of the step, version = the one it was computed from, rate, scale;
//               flags kKept (a lane of a synchronous step), kSomeAbsent (marks of present tensors follow the floats)
//               and kSkipped (a lane without an update, and without a body). With kOwnUpdate: client, id = its update
//               of this chunk, counted up, first = all below are over
//   kRecords    chunk, step, second = mask of lanes that count
//   kApply      chunk, step, second = mask, rate, scale; flags kSkipped (a gradient was not finite)
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
#include "muster/strategies/parameter_server/message.h"
#include "muster/strategies/parameter_server/server_plan.h"

namespace muster::strategies {

// An update of users' own, instead of the optimizer: changes the parameters of a chunk by a gradient. It must be a
// function of its arguments: copies call it, too, and come to the same.
using OwnUpdate = std::function<void(std::span<float> parameters, std::span<const float> gradient, double rate)>;

class Shard {
 public:
  // Bytes that a shard of all chunks would take; pages that are not used cost nothing.
  static std::size_t memory_bytes(const ServerPlan& plan);
  // `memory` is zero, aligned to 4096 bytes, and outlives the shard.
  // With an `own` update there are no synchronous steps: kApply is refused.
  Shard(const ServerPlan& plan, std::span<std::byte> memory, OwnUpdate own = {});
  ~Shard();

  const std::vector<ServerChunk>& chunks() const { return chunks_; }
  bool has(std::uint32_t chunk) const { return held_.count(chunk) > 0; }

  struct View {
    std::span<const float> parameters;
    std::uint64_t version;
    const std::atomic<std::uint64_t>* guard;
    std::uint64_t limit;  // of the guard, while the view is right
  };
  // REQUIRES, of all that follow unless they say else: has(chunk).
  View view(std::uint32_t chunk) const;
  std::uint64_t version(std::uint32_t chunk) const;
  // The lanes that it has seen; and: all steps below are closed.
  const AppliedSet& lanes(std::uint32_t chunk) const;
  std::uint64_t floor(std::uint32_t chunk) const;

  // The number that the client's next own update has.
  std::uint64_t next_update(std::uint32_t chunk, std::uint32_t client) const;

  // kPush. Gives kDone, kDuplicate, kLate or kRefused (a body of the wrong length).
  Status push(const Header& header, std::span<const std::byte> body);
  // kRecords: of the chunk's blocks. Empty when a lane is missing.
  std::vector<compute::BlockSum> records(const Header& header);
  // kApply. Gives kDone, kDuplicate or kRefused (a lane is missing).
  Status apply(const Header& header);

  // The whole state: the length of what chunk_state.h packs, that, records, and lanes that are kept. A chunk need not
  // be there for write(). Throws kDamaged.
  std::vector<std::byte> read(std::uint32_t chunk) const;
  void write(std::uint32_t chunk, std::span<const std::byte> state);
  void drop(std::uint32_t chunk);
  // Of such a state: what chunk_state.h packs; and back, without lanes that are kept.
  static std::span<const std::byte> packed_part(std::span<const std::byte> state);
  static std::vector<std::byte> first_state(std::span<const std::byte> packed);

 private:
  struct Held;

  compute::Version flat(Held& held, std::uint64_t version) const;
  void mark_present(const ServerChunk& chunk, const Header& header, std::span<const std::byte> body,
                    std::span<std::uint8_t> present) const;
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
