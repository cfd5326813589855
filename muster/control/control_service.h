// The gRPC service of proto/control.proto over ControlCalls, for the people of a run's own machine (control_server.h)
// and for those who call a coordinator from another one (cluster_server.h). For the sources of this folder only: it
// brings gRPC's headers.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <memory>

#include "muster/control/authorize_call.h"
#include "muster/control/control_calls.h"

namespace muster::control {

// `calls` outlives it.
std::unique_ptr<grpc::Service> make_control_service(ControlCalls& calls, AuthorizeCall authorize);

}  // namespace muster::control
