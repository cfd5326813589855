// The server of federated training as a client calls it, over gRPC (proto/federated.proto). Connects at the first call,
// and again as often as needed; every call ends by itself: kPeerLost, kTimeout, or what the server throws.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/control/cluster_client.h"
#include "muster/federated/offers.h"

namespace muster::federated {

// With certificates the server has to show a coordinator's. Throws as make_channel_credentials.
// `model`: of those that the server offers; empty: its first.
std::unique_ptr<FederatedCalls> make_federated_stub(const control::ClusterTarget& target,
                                                    const std::string& model = {});

// What the server offers. Throws Error as calls do.
std::vector<Offer> list_models(const control::ClusterTarget& target);

}  // namespace muster::federated
