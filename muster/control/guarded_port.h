// A port for calls from other machines, with a gRPC service behind it. Where there is trust a gate stands before it
// (tcp_gate.h), credentials say who may call (credentials.h), and the audit has a line for everybody who was turned
// away, which people see as well. For sources that talk gRPC: it brings its headers. Thread safety: audit() from any
// thread.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/log.h"
#include "muster/control/audit.h"
#include "muster/control/cluster_server.h"
#include "muster/control/credentials.h"
#include "muster/control/grpc_service.h"
#include "muster/control/tcp_gate.h"

namespace muster::control {

class GuardedPort {
 public:
  // Takes nothing yet. Throws kInvalidInput (no such address), and as make_server_trust().
  explicit GuardedPort(const ClusterListen& listen);
  GuardedPort(const GuardedPort&) = delete;
  GuardedPort& operator=(const GuardedPort&) = delete;
  // Calls in work get a second to end.
  ~GuardedPort();

  Audit& audit() { return audit_; }
  const std::function<void(const std::string&)>& note() const { return listen_.note; }
  // Whether the caller may; empty: everybody.
  AuthorizeCall authorize() const { return trust_ ? trust_->authorize : AuthorizeCall(); }
  const std::optional<ServerTrust>& trust() const { return trust_; }

  // Beside the one that open() is given, before that.
  void add(std::unique_ptr<grpc::Service> service) { services_.push_back(std::move(service)); }
  // From now on calls are taken, for `service`, within what `limit` sets; `whom` is for the error. Once. Throws kIo
  // naming the address when it cannot be listened on.
  void open(std::unique_ptr<grpc::Service> service, const std::function<void(grpc::ServerBuilder&)>& limit,
            std::string_view whom);
  // With the port that was chosen.
  const std::string& address() const { return address_; }

 private:
  const ClusterListen listen_;
  Log log_{LogLevel::kWarning};
  Audit audit_;
  std::optional<ServerTrust> trust_;
  std::string address_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;  // ended before them
  std::optional<TcpGate> gate_;
};

}  // namespace muster::control
