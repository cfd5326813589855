// A process that is a parameter server of a job: `muster server`, or a user's program that was started as one.
//
// It outlives the process that started it, as workers do: another one may take over. Without one it ends when no worker
// lives any more. Thread safety: one thread.
#pragma once

#include "muster/launch/environment.h"
#include "muster/strategies/parameter_server/own_update.h"

namespace muster::strategies {

// Serves until whoever keeps the servers ends this process, or nobody needs it any more. `update` is applied instead of
// the plan's optimizer; empty: that one. What goes wrong is left for whoever keeps the servers, and thrown.
// REQUIRES: world.store is not empty.
void serve_job(const launch::World& world, OwnUpdate update = {});

}  // namespace muster::strategies
