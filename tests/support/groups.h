// Ranks of a group as threads of the test, over shared memory or Gloo.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "muster/comm/checked_transport.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/group.h"
#include "muster/comm/network_backend.h"
#include "muster/comm/shm_backend.h"
#include "muster/comm/store.h"
#include "support/ranks.h"

namespace muster::testing {

enum class Network { kShm, kGloo };

// Calls body(rank, group) in a thread for each rank.
inline void run_group(int ranks, Network network, const std::function<void(int, comm::Group)>& body) {
  using std::chrono::seconds;
  const auto store = comm::make_memory_store();
  const comm::SharedRegion region = comm::create_shm_group_region(ranks);
  run_ranks(ranks, [&](int rank) {
    if (ranks == 1) {
      body(rank, comm::Group());
    } else if (network == Network::kShm) {
      auto mapping = comm::SharedRegion::attach(FileDescriptor(::dup(region.descriptor())));
      body(rank, comm::Group(comm::join_shm_group(std::move(mapping), rank, Deadline::after(seconds(60)))));
    } else {
      comm::GlooOptions options;
      options.rank = rank;
      options.size = ranks;
      options.store = store;
      auto transport = comm::with_checksums(comm::make_gloo_transport(options));
      body(rank, comm::Group(std::make_shared<comm::NetworkBackend>(std::move(transport))));
    }
  });
}

}  // namespace muster::testing
