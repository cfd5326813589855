// ClusterServer: the coordinator's end of the wire to the agents of other hosts (proto/cluster.proto), and to people
// who command from elsewhere (proto/control.proto).
//
// Who may call is the trust's to say (credentials.h); with trust a gate stands before it (tcp_gate.h). Without trust
// the server is for loopback, or for a network that the user trusts: whoever decides to listen asks
// require_may_listen() first. Requests are at most 128 KiB, metadata 4 KiB; calls that only wait are bounded in number,
// beyond that they are answered at once. The audit's lines go to `note`, those of refusals to standard error as well.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/control/cluster_calls.h"
#include "muster/control/control_calls.h"
#include "muster/control/trust_options.h"

namespace muster::control {

struct ClusterListen {
  std::string address;   // "10.0.0.1:7400"; port 0: any that is free. With trust in numbers
  TrustOptions trust{};  // none: neither encrypted nor authenticated, and everybody may call
  std::function<void(const std::string& line)> note = [](const std::string&) {};  // the audit; from any thread
};

class ClusterServer {
 public:
  // `commands`: of people who have a certificate or token of theirs, who call from anywhere (far_control.h); null: they
  // are not taken. Throws kIo naming the address when it cannot be listened on, kInvalidInput, and as
  // make_server_trust(). `calls` and `commands` outlive the server.
  ClusterServer(ClusterCalls& calls, const ClusterListen& listen, ControlCalls* commands = nullptr);
  ClusterServer(const ClusterServer&) = delete;
  ClusterServer& operator=(const ClusterServer&) = delete;
  // Calls in work get a second to end.
  ~ClusterServer();

  // With the port that was chosen.
  const std::string& address() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// Whether an address ("HOST:PORT") can be reached from this machine only. Throws kInvalidInput when it is none.
bool is_loopback(const std::string& address);

// Throws kInvalidInput, with what to do, for an address that others can reach when there is nothing that tells friend
// from foe: `protected_by_credentials`, or the user has typed that it shall be so (`insecure`).
void require_may_listen(const std::string& address, bool protected_by_credentials, bool insecure);
// The same for who calls: an agent runs what the one who answers there tells it to.
void require_may_join(const std::string& address, bool protected_by_credentials, bool insecure);

}  // namespace muster::control
