// The connection to a coordinator's port, as agents and people have it. For sources that talk gRPC: it brings its
// headers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/control/cluster_client.h"

namespace muster::control {

// Connects at the first call, and again as often as needed; whoever keeps it gives it an Attendant.
std::shared_ptr<grpc::Channel> channel_to_coordinator(const ClusterTarget& target);

// Why nobody answers there: nobody is there, or somebody with whom no connection comes about.
// REQUIRES: the status is UNAVAILABLE, and not by a word of the other side.
Error unreachable(const grpc::Status& status, const std::string& where);

}  // namespace muster::control
