// Which hosts of a generation have the job's state, and how the others get it, before a step is begun.
//
// Every host has the whole state, so one that lost its workers, or joins, takes it from another one. The source is the
// host that is furthest; who is behind it or fresh (comm/arena.h) gets parameters, optimizer state, updates and
// buffers, each worker its slice from one of the source's workers. docs/arena.md says why a death in between does no
// harm.
//
// Thread safety: one thread; all workers of all hosts call it together.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/arena.h"
#include "muster/control/job_generation.h"
#include "muster/strategies/host_layout.h"
#include "muster/strategies/membership.h"

namespace muster::strategies {

// Where a worker stands when it has entered a generation.
struct Standing {
  std::uint64_t step = 0;     // committed on its host
  bool fresh = false;         // its host has no state
  bool saw_the_last = false;  // it knows what the last committed step gave
};

struct StatePlan {
  std::size_t source = 0;       // the host that has the state
  std::uint64_t step = 0;       // of it
  std::vector<bool> takes{};    // by host: it gets the state
  std::optional<int> narrator;  // a rank that tells what the last step gave, where a host has missed only that
  std::string reason;           // in words

  bool anybody_takes() const;
};

// Pure. `standings` by rank; the first worker of a host speaks for it. Throws Error{kNotFound} when no host has a
// state.
StatePlan plan_state(const control::JobGeneration& job, std::span<const Standing> standings);

// What the last committed step gave, for those whose host missed it.
struct LastStep {
  std::uint64_t step = 0;
  data::Cursor next;
  StepOutcome outcome;
};

class HostState {
 public:
  // All must outlive it. `versions` are the arena's two.
  HostState(const StrategyOptions& options, comm::Arena& arena, std::span<const HostVersion, 2> versions)
      : options_(options), arena_(arena), versions_(versions) {}

  // Compares, and brings this host up to date. `last`: what this worker knows to have been committed last. `told`
  // becomes the last step where this worker's host had missed just that, before its state is taken up: whether it was
  // shows in the arena's step, also after an error. `patience` is for the others to come; a state on its way has the
  // time of a slow link beside (link_time.h). Throws Error{kPeerLost | kTimeout | kNotFound}.
  void bring_up_to_date(const Members& members, const std::optional<LastStep>& last, std::optional<LastStep>& told,
                        std::chrono::nanoseconds patience);

 private:
  std::vector<Standing> compare(const Members& members, const std::optional<LastStep>& last,
                                const Deadline& deadline) const;
  // The parts of a version that worker `index` of `workers` takes.
  std::vector<std::span<std::byte>> pieces(const HostVersion& version, std::size_t index, std::size_t workers) const;
  void send(const Members& members, const StatePlan& plan, const Deadline& deadline);
  void receive(const Members& members, const StatePlan& plan, const Deadline& deadline);

  const StrategyOptions& options_;
  comm::Arena& arena_;
  std::span<const HostVersion, 2> versions_;
};

}  // namespace muster::strategies
