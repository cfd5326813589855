// How the workers of a host come to the memory they share, a roster (comm/roster.h) with what a strategy keeps behind
// it: the first one makes it, the others fetch it.
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
#include "muster/comm/roster.h"
#include "muster/strategies/membership.h"

namespace muster::strategies {

// This worker's view of what it shares with the others, a comm::Roster or comm::Arena; `wanted.ranks` is filled in
// here. Without a supervisor all ranks of `group` call it. Under one: made if this worker is the founder, else fetched
// as soon as it is to be had; if it is appointed founder meanwhile, because the first one has ended, `supervised` says
// so afterwards. Throws kMismatch when a worker's sizes are not the first one's, kTimeout when there has been no
// supervisor for `supervised->patience`.
template <typename Shared>
std::shared_ptr<Shared> open_shared(std::optional<Supervised>& supervised, const comm::Group& group,
                                    typename Shared::Options wanted);
extern template std::shared_ptr<comm::Roster> open_shared(std::optional<Supervised>&, const comm::Group&,
                                                          comm::RosterOptions);
extern template std::shared_ptr<comm::Arena> open_shared(std::optional<Supervised>&, const comm::Group&,
                                                         comm::ArenaOptions);

// Serves the region and says so in the store: "server/<pid>-<start>", and by arena_key if this worker is the founder.
std::unique_ptr<comm::RegionServer> serve_roster(const Supervised& supervised, const comm::Roster& roster);

}  // namespace muster::strategies
