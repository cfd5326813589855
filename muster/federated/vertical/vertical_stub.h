// The label holder as a party with columns calls it, over gRPC (proto/vertical.proto). Connects at the first call, and
// again as often as needed; every call ends by itself: kPeerLost, kTimeout, or what the label holder throws.
#pragma once

#include <memory>

#include "muster/control/cluster_client.h"
#include "muster/federated/vertical/vertical_calls.h"

namespace muster::federated {

// Throws kInvalidInput and as make_channel_credentials(). Thread safety: any number of threads at once.
std::unique_ptr<VerticalCalls> make_vertical_stub(const control::ClusterTarget& target);

}  // namespace muster::federated
