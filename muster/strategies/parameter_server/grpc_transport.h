// Calls through gRPC streams, for a parameter server and clients that share no memory with it.
//
// One stream per connection, on which messages travel as raw bytes in frames of up to 1 MiB (frames.h), many calls at
// once. Who does not have the token gets nothing but a refusal, and who sends nonsense loses its stream.
// On one host only loopback addresses and Unix sockets are listened on, and nothing is encrypted, since the bytes stay
// inside the kernel. On Unix sockets both ends look whose process is at the other one before they send or read a byte.
// On a port of loopback nobody can: it is for machines without other users, and jobs of one host do not use it.
// Between hosts (GrpcReach) a server listens on an address that they reach. With certificates both ends show theirs:
// the client takes one that is good for a server only, the server asks for the caller's role (control/caller_role.h),
// and a gate stands before the port (control/tcp_gate.h). Without them whoever reads the network reads the token, too:
// for loopback, and for a network that the user trusts (`--insecure`).
// A reply in place is copied by the server, at once. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "muster/control/trust_options.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {

// From where a server can be reached, and by what both ends trust each other.
struct GrpcReach {
  bool other_hosts = false;       // by any address in numbers, not only on this machine
  control::TrustOptions trust{};  // certificates of both ends; none: see above
};

// Listens on `listen`: "127.0.0.1:0" (port 0: any free one), "[::1]:0", "unix:PATH", "unix-abstract:NAME". Throws
// kInvalidInput for any other place (with other_hosts: for what is no address in numbers with a port), kIo when it
// cannot be had, kResource; with certificates as control::make_server_trust(). A client that connects again takes the
// place of its stream before: between two sockets nobody can tell whether the other end still lives.
std::unique_ptr<Inbox> make_grpc_inbox(const TransportLimits& limits, std::size_t memory_bytes,
                                       const std::string& listen, const std::string& token,
                                       const GrpcReach& reach = {});

// Throws kPeerLost (nobody serves there, or a process of another user does), kInvalidInput (address, token or number
// refused), kTimeout. `limits` as the server has them: who has more calls under way than it allows loses the stream.
std::unique_ptr<Connection> connect_grpc(const std::string& address, const std::string& token, std::uint32_t client,
                                         const TransportLimits& limits, const Deadline& deadline,
                                         const GrpcReach& reach = {});

}  // namespace muster::strategies
