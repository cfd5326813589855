// TcpGate: takes TCP connections for a gRPC server, and lets in only those that begin as TLS 1.2 or newer does.
//
// gRPC alone reads what strangers send for as long as it comes, and tells nobody of what it refused. Here a connection
// has 5 s for a greeting (ClientHello) of at most 4 KiB, which is looked at and left in the socket for gRPC; garbage,
// plain text, old TLS and silence are closed with a line in the audit. 256 may wait for their greeting at a time;
// beyond that the one that has waited longest goes: who comes with a greeting does not wait. Who was let in and did not
// call within 6 s (its handshake failed, or it said nothing) gets a line, too; gRPC closes it (limit_strangers).
// One thread of its own.
#pragma once

#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>

#include "muster/control/audit.h"
#include "muster/control/credentials.h"

namespace muster::control {

struct TcpGateLimits {
  std::chrono::milliseconds greeting{5000};
  std::chrono::milliseconds first_call{6000};
  std::size_t waiting = 256;
};

class TcpGate {
 public:
  // Listens on "ADDRESS:PORT" (numbers, IPv6 in brackets; port 0: any that is free) in place of
  // builder.AddListeningPort. Throws kInvalidInput (no such address), kIo, kResource. `audit` outlives it.
  TcpGate(grpc::ServerBuilder& builder, const std::string& address, const ServerTrust& trust, Audit& audit,
          const TcpGateLimits& limits = {});
  TcpGate(const TcpGate&) = delete;
  TcpGate& operator=(const TcpGate&) = delete;
  // To be destroyed before the server.
  ~TcpGate();

  // From now on connections are taken. REQUIRES: the server was started.
  void open();
  // With the port that was chosen.
  const std::string& address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::control
