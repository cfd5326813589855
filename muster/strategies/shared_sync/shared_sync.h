// shared_sync: synchronous data parallelism over one copy of the model per host (docs/arena.md).
//
// All workers of the group are on this host and share one arena (comm/arena.h). A worker reduces and updates its slice,
// whole blocks, of every step. The bits are the same for any number of workers, because lanes, blocks and the tree do
// not depend on it. A lost worker ends every other one's step with kPeerLost.
#pragma once

#include <memory>

#include "muster/strategies/strategy.h"

namespace muster::strategies {

std::unique_ptr<Strategy> make_shared_sync(StrategyOptions options);

}  // namespace muster::strategies
