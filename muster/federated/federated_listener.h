// The server's end of the wire to the clients of federated training (proto/federated.proto).
//
// With trust both sides show certificates of one authority, a gate stands before the port (control/tcp_gate.h), every
// call is for the role "client" alone, and a client is who its certificate says. Without trust it is for loopback, or
// for a network that the user trusts: a client is who it says it is. Requests are at most a chunk of 1 MiB.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/control/cluster_server.h"
#include "muster/federated/offers.h"

namespace muster::federated {

class FederatedListener {
 public:
  // Throws kIo naming the address when it cannot be listened on, kInvalidInput (also for tokens: they are no identity),
  // and as make_server_trust(). Who answers for the models outlives it.
  // Calls that name no model are for the first one. REQUIRES: at least one model.
  FederatedListener(const std::vector<OfferedModel>& models, const control::ClusterListen& listen);
  FederatedListener(const FederatedListener&) = delete;
  FederatedListener& operator=(const FederatedListener&) = delete;
  // Calls in work get a second to end.
  ~FederatedListener();

  // With the port that was chosen.
  const std::string& address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::federated
