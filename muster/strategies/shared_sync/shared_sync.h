// shared_sync: synchronous data parallelism over one copy of the model per host (DESIGN: lanes and the host arena).
//
// With one worker, which is what runs so far, every lane is that worker's and the one slice is the whole model; the
// bits are those that any number of workers gives, because lanes, blocks and the tree do not depend on it.
#pragma once

#include <memory>

#include "muster/strategies/strategy.h"

namespace muster::strategies {

std::unique_ptr<Strategy> make_shared_sync(StrategyOptions options);

}  // namespace muster::strategies
