// shared_sync: synchronous data parallelism over one copy of the model per host (docs/arena.md).
//
// The workers of a host share one arena (comm/arena.h). A worker reduces and updates its slice, whole blocks, of every
// step. The bits are the same for any number of workers, because lanes, blocks and the tree do not depend on it. A lost
// worker ends every other one's step with kPeerLost. Under agents there may be several hosts (membership.h, HostPlace):
// each computes its part of the lanes, sums are exchanged (host_exchange.h), every host makes the same update, and one
// that is behind takes the state of another (host_state.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/strategies/strategy_choice.h"

namespace muster::strategies {

struct SharedSync {
  // Between hosts, where each has one worker: sums are exchanged while backward goes on. A lane then has one
  // backward(), and a loop must not be left inside a step. A job file begins with true (registry.cpp).
  bool exchange_early = false;

  static constexpr std::string_view kName = "shared_sync";

  Traits traits() const;
  void add_keys(Section& parallel);
  std::vector<std::string> free_keys() const { return {"exchange_early"}; }
  StateMemory memory(const StateFigures& figures) const;
  std::unique_ptr<Strategy> make(StrategyOptions needs) const;
};

}  // namespace muster::strategies
