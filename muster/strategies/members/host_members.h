// The workers of a host as members of generations: how one comes in, learns that others were lost, and goes on with
// those who are left. Strategies whose workers may be lost and replaced are built on it.
//
// It owns the host arena (comm/arena.h) and a thread that gives signs of life. While a supervisor lives it sees who is
// lost; when it is gone the workers watch over each other. With a fixed group (no supervisor) there is one generation,
// and nobody is replaced. Thread safety: one thread; abandoned_for() from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "muster/base/failpoint.h"
#include "muster/comm/arena.h"
#include "muster/comm/region.h"
#include "muster/control/process_watch.h"
#include "muster/strategies/strategy.h"

namespace muster::strategies {

class HostMembers {
 public:
  static constexpr std::uint64_t kFirstGeneration = 1;

  // Makes or finds the arena. `supervised` and `group` as in StrategyOptions. Every worker wants the same.
  HostMembers(const std::optional<Supervised>& supervised, const comm::Group& group, comm::ArenaOptions wanted);

  comm::Arena& arena() { return arena_; }
  const comm::Arena& arena() const { return arena_; }
  bool supervised() const { return supervised_.has_value(); }
  // Whether it is this worker that writes the state before the first step.
  bool founds() const { return supervised_ ? supervised_->founder : group_.rank() == 0; }

  // Under a supervisor, once: says that this worker is ready, and returns when it is a member.
  void meet();
  // Becomes a member of the next generation. Throws kTimeout.
  void rejoin();

  const Members& members() const { return members_; }
  std::size_t index() const { return index_; }  // of this worker among the members
  std::size_t workers() const { return workers_; }
  std::chrono::nanoseconds abandoned_for() const;

  // Failpoints of this thread are those of `step` from now on.
  void enter_step(std::int64_t step);

 private:
  void take_place();
  void gather();
  void enter_next();
  void decide_on_members();
  // While nobody is in charge: throws kPeerLost when a member is dead or silent.
  void look_after_the_others();
  bool silent(int seat);
  void give_signs_of_life(const std::stop_token& stop);
  std::uint64_t all_ranks() const;

  // Constant after construction.
  std::optional<Supervised> supervised_;  // constant after construction
  const comm::Group group_;
  comm::Arena arena_;
  const std::chrono::nanoseconds liveness_;
  // Of the present members.
  Members members_;
  std::uint64_t first_generation_ = 0;  // that this worker was in
  std::size_t index_ = 0;
  std::size_t workers_ = 1;
  std::unique_ptr<comm::RegionServer> server_;  // gives the arena to those who come later
  std::optional<FailpointScope> scope_;
  std::vector<control::ProcessWatch> watches_;    // by seat, for times without a supervisor
  std::atomic<std::int64_t> abandoned_since_{0};  // of the monotonic clock, in ns; 0: it is not
  std::jthread heartbeat_;                        // the last member: it is stopped before anything it uses goes
};

}  // namespace muster::strategies
