// How calls travel between the processes of a job, as its plan says: through shared memory, or through gRPC streams.
//
// For gRPC the first worker makes a token and leaves it in the job's store, a folder that only this user can read; it
// is on no command line and in no log. Servers listen on abstract Unix sockets with random names: nothing is left
// behind, whatever ends them. In a job of several hosts they listen on a port of the network between them; the token
// comes from the coordinator, with certificates where hosts know each other by any, and the agent says where both are
// (control/server_places.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/base/deadline.h"
#include "muster/comm/store.h"
#include "muster/strategies/parameter_server/server_plan.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {

// What ServerOptions and ClientOptions take; empty: through shared memory.
struct JobTransport {
  std::function<std::unique_ptr<Inbox>(const TransportLimits& limits, std::size_t memory_bytes)> make_inbox{};
  std::function<std::unique_ptr<Connection>(const std::string& address, std::uint32_t client, const Deadline& deadline)>
      connect{};
};

// Leaves a token in the store, if the plan needs one and there is none. For the process that leaves the plan.
void put_token(comm::Store& store, const ServerPlan& plan);

// Waits for the token. Throws kTimeout.
JobTransport job_transport(comm::Store& store, const ServerPlan& plan, const Deadline& deadline);

}  // namespace muster::strategies
