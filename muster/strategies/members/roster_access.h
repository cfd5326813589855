// How the workers of a host come to the arena they share: the first one makes it, the others fetch it.
//
// With a fixed group the address goes through the group. With a supervisor (membership.h, Supervised) it goes through
// the job's store, or was given to this worker when it was started; every worker then serves the region in its turn, so
// that whoever comes later, or takes over the supervision, finds it as long as one worker lives.
#pragma once

#include <memory>
#include <optional>

#include "muster/comm/arena.h"
#include "muster/comm/group.h"
#include "muster/comm/region.h"
#include "muster/strategies/membership.h"

namespace muster::strategies {

// All ranks of `group` call it. Throws kMismatch when a worker's sizes are not the first one's.
comm::Arena open_arena(comm::Group& group, const comm::ArenaOptions& wanted);

// This worker's arena under a supervisor: made if it is the founder, else fetched as soon as it is to be had. If it is
// appointed founder meanwhile, because the first one has ended, `supervised` says so afterwards. Throws kTimeout when
// there has been no supervisor for `supervised.patience`.
comm::Arena open_arena(Supervised& supervised, const comm::ArenaOptions& wanted);
// Serves the region and says so in the store: "server/<pid>-<start>", and by arena_key if this worker is the founder.
std::unique_ptr<comm::RegionServer> serve_arena(const Supervised& supervised, const comm::Arena& arena);

}  // namespace muster::strategies
