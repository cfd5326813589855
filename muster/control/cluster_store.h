// The store that all workers of all hosts of a job share, as a worker opens it: through its agent's relay.
#pragma once

#include <memory>
#include <string>

#include "muster/comm/store.h"

namespace muster::control {

// What MUSTER_CLUSTER says (launch/environment.h):
//   "unix-abstract:NAME,TOKEN_FILE"  the relay of this host's agent (cluster_relay.h)
//   "file:FOLDER"                    a folder that all hosts see; for tests
// set() and get() as comm::Store has them; while the coordinator cannot be reached get() waits, and set() tries for a
// moment, then throws kTimeout (comm::with_interruption goes on trying). Both throw kPeerLost when the agent is gone,
// or was given up by the coordinator: its workers wait for the next generation then. Throws kInvalidInput (no such
// address), kPeerLost (nobody listens, or a process of another user does), and as read_token (access_token.h).
std::shared_ptr<comm::Store> open_cluster_store(const std::string& address);

}  // namespace muster::control
