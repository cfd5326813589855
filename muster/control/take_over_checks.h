// What is looked at before a coordinator takes over from an agent, which is ended for it: afterwards it would be too
// late. Thread safety: every function from any thread.
#pragma once

#include "muster/base/deadline.h"
#include "muster/control/cluster_client.h"
#include "muster/control/cluster_server.h"

namespace muster::control {

// Whether a coordinator answers there before the deadline, whatever it says: one that refuses lives, too.
bool coordinator_answers(const ClusterTarget& target, const Deadline& deadline);

// Throws what ClusterServer would: for credentials that do not count, and for an address that cannot be listened on.
// Listens for a moment; who calls meanwhile is told to try again.
void require_can_listen(const ClusterListen& listen);

}  // namespace muster::control
