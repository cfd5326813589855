// ShardServer: a host that has packed shards gives them to the job's other hosts (proto/shards.proto, ShardHost).
//
// Who may call is the trust's to say, as with ClusterServer: a call needs an agent's or a coordinator's certificate or
// token, the gate and the audit are the same. Without trust whoever reaches the address can read the data of the job,
// and nothing else of this host. Requests have at most 128 KiB, metadata 4 KiB, replies 80 MiB; 64 calls are answered
// at a time.
#pragma once

#include <memory>
#include <string>

#include "muster/control/cluster_server.h"
#include "muster/data/shard_calls.h"

namespace muster::control {

class ShardServer {
 public:
  // Throws kIo naming the address when it cannot be listened on, kInvalidInput, and as make_server_trust(). `calls`
  // outlives the server.
  ShardServer(data::ShardCalls& calls, const ClusterListen& listen);
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;
  // Calls in work get a second to end.
  ~ShardServer();

  // With the port that was chosen.
  const std::string& address() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace muster::control
