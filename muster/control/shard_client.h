// The shards of another host, over gRPC (proto/shards.proto, ShardHost). Connects at the first call, and again as often
// as needed; every call ends by its deadline.
#pragma once

#include <memory>

#include "muster/control/cluster_client.h"
#include "muster/data/shard_calls.h"

namespace muster::control {

// Where a token is the trust, the certificate there has to be that of `known_as`; empty: that of the address itself.
// (With certificates on both sides it has to be a coordinator's.) Throws as make_channel_credentials.
std::shared_ptr<data::ShardCalls> make_shard_client(const ClusterTarget& target, const std::string& known_as = {});

}  // namespace muster::control
