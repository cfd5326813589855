// What hosts give each other in a step: heads of lanes, and sums of gradients by chunks (chunk_grid.h).
//
//   heads  of a lane: which tensors have a gradient, what the lane reports, its buffers. The first worker of a host
//   sends
//          those of its host's lanes to the first workers of all others, which put them into the lanes' areas; and
//          with them what its host has written down of the step (host_records.h), which they keep.
//   sums   the owner of a chunk computes, of its own host's lanes, the sums of the largest subtrees of the lane tree
//          (compute/reduce.h), and sends them to the chunk's owner on the host that reduces it. That one adds all by
//          the tree and sends the sum to the owners on the other hosts.
// So every host has the sum that one host with all lanes would have, bit by bit, and a chunk goes to and from each host
// once. Several chunks are under way at a time, and all workers go through them in the same order, that of the layout,
// in which backward gives them, so that the one that is furthest behind never waits for a chunk that somebody else has
// put off.
//
// With `early` a worker begins before its last lane is done: a thread starts chunks as backward gives their gradients,
// adds and sends, while the worker computes. Which tensors have gradients is not known then: everybody takes those of
// the step before, and when the heads say otherwise the sums are exchanged once more. Heads stand in line behind the
// sums that have left before them; these go on while the first worker waits.
//
// Errors: kPeerLost when a worker is lost or the arena's generation is superseded, kTimeout at the deadline. After one
// of them nothing is written any more. Thread safety: one thread, but for gradient_ready(), which any may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/group.h"
#include "muster/compute/slice_update.h"
#include "muster/strategies/host_layout.h"
#include "muster/strategies/host_records.h"
#include "muster/strategies/membership.h"
#include "muster/strategies/shared_sync/chunk_grid.h"

namespace muster::strategies {

class HostExchange {
 public:
  using Ready = std::function<void(const compute::BlockRange&)>;

  // Of the present members. `layout` and `records` (null: there are none) must outlive it. `early`, and whether there
  // are records, has to be the same for all.
  HostExchange(const model::FlatLayout& layout, const Members& members, bool early = false,
               HostRecords* records = nullptr);
  HostExchange(const HostExchange&) = delete;
  HostExchange& operator=(const HostExchange&) = delete;
  ~HostExchange();

  // The blocks that this worker updates: whole chunks.
  const compute::BlockRange& slice() const { return slice_; }

  // By the first worker of each host; does nothing for the others. `lanes`: of the step. Returns when the heads of all
  // other hosts' lanes are in their areas. REQUIRES: this host's lanes are done.
  void exchange_heads(std::span<const HostLane> lanes, const Deadline& deadline);

  // Whether a step of so many lanes can be begun early: not the first one, nor one that has other lanes.
  bool can_begin_early(std::size_t lanes) const;
  // Begins to exchange what exchange_sums() will finish, which must follow with the same arguments. REQUIRES:
  // can_begin_early(), this worker is the only one of its host, `sums` may be written, and of this host's lanes all but
  // `last_lane` are done.
  void begin_early(std::span<const HostLane> lanes, std::span<float> sums, std::size_t last_lane);
  // The last lane has the gradient of `tensor`, and will not change it. Never waits.
  void gradient_ready(std::size_t tensor);
  // Begun early, and not finished.
  bool under_way() const { return passage_ != nullptr; }

  // The sums of all lanes for this worker's slice, in `sums` (flat): blocks of tensors that no lane has a gradient of
  // are left as they are. Calls `ready` for each chunk, as soon as its sum is there and `sums` may be written over.
  // REQUIRES: the heads of all lanes are there.
  void exchange_sums(std::span<const HostLane> lanes, std::span<float> sums, const Ready& ready,
                     const Deadline& deadline);

  // Seconds waited for other hosts since it was last asked.
  double take_waited();

 private:
  struct Flight;
  struct Step;
  struct Passage;
  class Driver;
  // By lane and tensor: it has a gradient.
  using Presence = std::vector<std::vector<std::uint8_t>>;
  struct Run {
    std::uint64_t begin = 0;  // flat positions
    std::uint64_t end = 0;
  };

  bool reduces(std::size_t chunk) const;
  int owner_rank(std::size_t host, std::size_t chunk) const;
  bool has_tensor(std::size_t chunk, std::size_t tensor) const;
  // Ranges of consecutive blocks of a chunk whose tensors are marked.
  std::vector<Run> runs_of(std::size_t chunk, std::span<const std::uint8_t> marks) const;
  void start(const Step& step, Flight& flight);
  void start_contribution(const Step& step, Flight& flight);
  void start_reduction(const Step& step, Flight& flight);
  // Waits until the sum of the chunk is there.
  void finish(const Step& step, Flight& flight, const Deadline& deadline);
  void add_and_send(const Step& step, Flight& flight);
  void wait(comm::Pending& transfer, const Deadline& deadline);
  // Whether all are done. Never waits.
  static bool done(std::vector<comm::Pending>& transfers);
  void start_next(Passage& passage);
  // The first that is reduced here, or elsewhere. REQUIRES: there is one.
  void finish_first(Passage& passage, bool reduced_here, const Deadline& deadline);
  std::size_t land_first(Passage& passage, const Deadline& deadline);
  // As far as it goes without waiting; whether it went anywhere.
  bool advance(Passage& passage);
  void count_gradient(Passage& passage, std::size_t tensor) const;
  // The passage is this thread's again. Throws what its driver has met.
  void take_back();
  // As wait(), and moves on what is under way meanwhile.
  void wait_for_head(comm::Pending& transfer, const Deadline& deadline);
  void run(Passage& passage, const Ready& ready, const Deadline& deadline);

  // Constant after construction.
  const model::FlatLayout& layout_;
  const Members members_;
  comm::Group group_;
  const ChunkGrid grid_;
  const ChunkGrid::Share share_;
  const compute::BlockRange slice_;
  const bool early_;
  HostRecords* const records_;
  std::vector<std::vector<int>> owners_;  // by host and chunk: ranks
  // Of the steps.
  std::vector<std::vector<float>> memory_;  // kept from step to step, one for a chunk that is under way
  Presence last_presence_;                  // of the step before; empty: there was none
  std::unique_ptr<Passage> passage_;        // after what its transfers use: it goes first
  std::unique_ptr<Driver> driver_;          // of the passage while the worker computes; goes before it
  double waited_ = 0;
};

}  // namespace muster::strategies
