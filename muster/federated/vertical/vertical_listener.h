// The label holder's end of the wire to the parties with columns (proto/vertical.proto).
//
// With trust both sides show certificates of one authority, a gate stands before the port (control/tcp_gate.h), every
// call is for the role "client" alone, and a party is who its certificate says. Without trust it is for loopback, or
// for a network that the user trusts. Requests are at most a step's activations, 8 MiB; of calls only so many are
// answered at a time.
#pragma once

#include <memory>
#include <string>

#include "muster/control/cluster_server.h"
#include "muster/federated/vertical/vertical_calls.h"

namespace muster::federated {

class VerticalListener {
 public:
  // Throws kIo naming the address when it cannot be listened on, kInvalidInput (also for tokens: they are no identity),
  // and as make_server_trust(). `calls` outlives it.
  VerticalListener(VerticalCalls& calls, const control::ClusterListen& listen);
  VerticalListener(const VerticalListener&) = delete;
  VerticalListener& operator=(const VerticalListener&) = delete;
  // Calls in work get a second to end.
  ~VerticalListener();

  // With the port that was chosen.
  const std::string& address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::federated
