// How those who keep their data reach the one that they train with: a connection that is made again as often as it is
// lost. For sources that talk gRPC: it brings its headers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "muster/control/cluster_client.h"

namespace muster::federated {

// With certificates the other end has to show a coordinator's. Throws as make_channel_credentials().
std::shared_ptr<grpc::Channel> make_client_channel(const control::ClusterTarget& target);

// Nothing if the call came to its end; else throws what the other side threw or, retryable, that nobody is there.
void require_answer(const grpc::Status& status, const std::string& where);

}  // namespace muster::federated
