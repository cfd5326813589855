// The services of agents and of people (cluster_service.h, control_service.h) behind a guarded port. What has to be
// known of addresses is apart, in addresses.cpp.
#include "muster/control/cluster_server.h"

#include "muster/base/error.h"
#include "muster/control/cluster_service.h"
#include "muster/control/control_service.h"
#include "muster/control/guarded_port.h"

namespace muster::control {

struct ClusterServer::Parts {
  explicit Parts(const ClusterListen& listen) : port(listen) {}
  GuardedPort port;
};

ClusterServer::ClusterServer(ClusterCalls& calls, const ClusterListen& listen, ControlCalls* commands)
    : parts_(std::make_unique<Parts>(listen)) {
  GuardedPort& port = parts_->port;
  if (commands != nullptr) port.add(make_control_service(*commands, port.authorize()));
  port.open(make_cluster_service(calls, port.authorize(),
                                 [&audit = port.audit()](const grpc::ServerContextBase& context, const Error& error) {
                                   audit.refused({.who = {}, .what = "Join", .from = context.peer()}, error.message());
                                 }),
            limit_cluster_server, "agents");
}

ClusterServer::~ClusterServer() = default;

const std::string& ClusterServer::address() const {
  return parts_->port.address();
}

}  // namespace muster::control
