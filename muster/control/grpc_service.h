// What all our gRPC services do alike: an answer that carries what was thrown to the caller, and limits of what a
// server takes. For sources that talk gRPC: it brings its headers. Thread safety: answer_call() from any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <exception>
#include <string_view>

#include "muster/base/error.h"
#include "muster/control/authorize_call.h"
#include "muster/control/wire.h"

namespace muster::control {

// Runs `body`; what it throws arrives at the caller (from_status).
template <typename Body>
grpc::Status answer_call(const Body& body) {
  try {
    body();
    return grpc::Status::OK;
  } catch (const Error& error) {
    return to_status(error);
  } catch (const std::exception& error) {
    return {grpc::StatusCode::INTERNAL, error.what()};
  }
}

// The same for those who may make `call`; without `authorize` that is everybody.
template <typename Body>
grpc::Status answer_call(const AuthorizeCall& authorize, const grpc::ServerContextBase& context, std::string_view call,
                         const Body& body) {
  if (authorize) {
    if (grpc::Status status = authorize(context, call); !status.ok()) return status;
  }
  return answer_call(body);
}

struct ServerLimits {
  int threads = 0;  // calls that are answered at a time
  int request_bytes = 0;
  int reply_bytes = -1;  // no limit
  int metadata_bytes = 4 * 1024;
};
void limit_server(grpc::ServerBuilder& builder, const ServerLimits& limits);

}  // namespace muster::control
