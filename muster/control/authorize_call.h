// The check of every call of a service that others than this user's processes can reach: who makes it is in
// credentials.h, who asks it are the services.
#pragma once

#include <functional>
#include <string_view>

namespace grpc {
class ServerContextBase;
class Status;
}  // namespace grpc

namespace muster::control {

// OK, or why whoever calls may not, as to_status() (wire.h) makes it of an Error. `call` is the method's name ("Join").
// From any thread.
using AuthorizeCall = std::function<grpc::Status(const grpc::ServerContextBase& context, std::string_view call)>;

}  // namespace muster::control
