// Collectives between the processes of one host, through shared memory.
//
// A collective is a sequence of rounds. In a round every rank writes what it gives into its own slot, publishes the
// round, waits for the round before from everybody, and takes from the others' slots; slots stay in the caches, so
// memory is read and written once however many ranks there are. The first round carries the call, which everybody
// compares: that is how a mismatch is found before any data is used. Algorithms and costs: docs/collectives.md.
//
// Thread safety: one call at a time, but for abort().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/deadline.h"
#include "muster/comm/backend.h"
#include "muster/comm/region.h"
#include "muster/comm/store.h"

namespace muster::comm {

// A region for a group of `ranks`. Throws kResource.
SharedRegion create_shm_group_region(int ranks);

// Rank `rank` of the group in `region`; returns when every rank has come. Throws kDamaged for a region that is not a
// group's, kTimeout naming the ranks that have not come. `interruption`, if given, is called now and then by every wait
// of the group and may end it by throwing.
std::unique_ptr<Backend> join_shm_group(SharedRegion region, int rank, const Deadline& deadline,
                                        std::function<void()> interruption = {});

// The same where ranks have only a store in common: rank 0 makes the region and leaves its address there.
std::unique_ptr<Backend> make_shm_backend(int rank, int size, const std::shared_ptr<Store>& store,
                                          const Deadline& deadline, const std::function<void()>& interruption = {});

// For a parent that saw a rank die and is no rank itself: ends everybody's waits with kPeerLost at once.
void report_lost_rank(SharedRegion& region, int rank, std::string_view reason);

}  // namespace muster::comm
