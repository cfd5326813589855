// The gRPC service of proto/cluster.proto over ClusterCalls, for the server of a coordinator and for an agent's relay.
// For the sources of this folder only: it brings gRPC's headers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "cluster.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/control/authorize_call.h"
#include "muster/control/cluster_calls.h"

namespace muster::control {

// Hears of hosts that were authorized and still could not join (another version, for example). From any thread.
using JoinRefused = std::function<void(const grpc::ServerContextBase& context, const Error& error)>;

// `calls` outlives it.
std::unique_ptr<grpc::Service> make_cluster_service(ClusterCalls& calls, AuthorizeCall authorize,
                                                    JoinRefused refused = {});

// What both servers have in common: limits of sizes, threads and streams.
void limit_cluster_server(grpc::ServerBuilder& builder);

}  // namespace muster::control
