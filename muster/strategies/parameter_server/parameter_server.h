// The strategy parameter_server: workers lease lanes, pull the parameters, compute, and push gradients to servers that
// hold the model in chunks and apply them. How lanes become updates is chosen in the job (consistency.h).
//
// bsp gives the bits of shared_sync. asp and ssp apply every lane for itself, with its share of the step's weight; a
// lane is applied exactly once, whoever dies (book.h). backup leaves out the last lanes of a step. Buffers of the
// model: with bsp and backup as shared_sync merges them, else those of the lane that was applied last.
//
// Servers are processes that somebody else has started (launch/server_keeper.h), or threads of the workers
// themselves; they find each other through the job's store. docs/parameter-server.md has the user's side.
#pragma once

#include <memory>

#include "muster/strategies/strategy.h"

namespace muster::strategies {

// Throws Error{kInvalidInput} for options that contradict each other.
std::unique_ptr<Strategy> make_parameter_server(StrategyOptions options);

}  // namespace muster::strategies
