// The server of federated training as a client calls it, over gRPC (proto/federated.proto). Connects at the first call,
// and again as often as needed; every call ends by itself: kPeerLost, kTimeout, or what the server throws.
#pragma once

#include <memory>

#include "muster/control/cluster_client.h"
#include "muster/federated/federated_calls.h"

namespace muster::federated {

// With certificates the server has to show a coordinator's. Throws as make_channel_credentials.
std::unique_ptr<FederatedCalls> make_federated_stub(const control::ClusterTarget& target);

}  // namespace muster::federated
