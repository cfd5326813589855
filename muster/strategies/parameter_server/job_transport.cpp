#include "muster/strategies/parameter_server/job_transport.h"

#include "muster/base/error.h"
#include "muster/control/access_token.h"
#include "muster/strategies/parameter_server/grpc_transport.h"

namespace muster::strategies {
namespace {

constexpr const char* kTokenKey = "plan/token";
constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kNameBytes = 16;

}  // namespace

void put_token(comm::Store& store, const ServerPlan& plan) {
  if (!plan.grpc) return;
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
