// Picks the transport by the plan and gives it the token from the store;
// nothing above it knows which one it was.
#include "muster/strategies/parameter_server/job_transport.h"

#include <chrono>

#include "muster/base/error.h"
#include "muster/control/access_token.h"
#include "muster/control/server_places.h"
#include "muster/strategies/parameter_server/grpc_transport.h"

namespace muster::strategies {
namespace {

constexpr const char* kTokenKey = "plan/token";
constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kNameBytes = 16;
// Over a network a handshake takes its time on a busy machine; whoever is tried again begins it anew.
constexpr std::chrono::seconds kHandshakeTime{3};

JobTransport hosts_transport(const control::ServerHost& host, const TransportLimits& limits) {
  GrpcReach reach;
  reach.other_hosts = true;
  reach.trust.certs = host.certs;
  JobTransport transport;
  transport.make_inbox = [host, reach](const TransportLimits& wanted, std::size_t memory_bytes) {
    return make_grpc_inbox(wanted, memory_bytes, host.address + ":0", host.token, reach);
  };
  transport.connect = [host, reach, limits](const std::string& address, std::uint32_t client, const Deadline&) {
    return connect_grpc(address, host.token, client, limits, Deadline::after(kHandshakeTime), reach);
  };
  return transport;
}

}  // namespace

void put_token(comm::Store& store, const ServerPlan& plan) {
  if (!plan.grpc || plan.hosts) return;
  try {
    // A first worker that died early may have left one, and others may have it.
    store.get(kTokenKey, Deadline::after(std::chrono::nanoseconds(0)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    store.set(kTokenKey, control::random_hex(kTokenBytes));
  }
}

JobTransport job_transport(comm::Store& store, const ServerPlan& plan, const Deadline& deadline) {
  if (!plan.grpc) return {};
  if (plan.hosts)
    return hosts_transport(control::ServerHost::from_text(store.get(control::kServerHostKey, deadline)), plan.limits());
  const std::string token = store.get(kTokenKey, deadline);
  JobTransport transport;
  transport.make_inbox = [token](const TransportLimits& limits, std::size_t memory_bytes) {
    const std::string listen = "unix-abstract:muster-" + control::random_hex(kNameBytes);
    return make_grpc_inbox(limits, memory_bytes, listen, token);
  };
  transport.connect = [token, limits = plan.limits()](const std::string& address, std::uint32_t client,
                                                      const Deadline& until) {
    return connect_grpc(address, token, client, limits, until);
  };
  return transport;
}

}  // namespace muster::strategies
