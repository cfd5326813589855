// The shards of another host, over gRPC (proto/shards.proto, ShardHost). Connects at the first call, and again as often
// as needed; every call ends by its deadline.
#pragma once

#include <memory>

#include "muster/control/cluster_client.h"
#include "muster/data/shard_calls.h"

namespace muster::control {

// Throws as make_channel_credentials.
std::shared_ptr<data::ShardCalls> make_shard_client(const ClusterTarget& target);

}  // namespace muster::control
