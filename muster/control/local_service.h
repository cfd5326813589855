// A gRPC service for the processes of this user on this machine: an abstract Unix socket with a random name, and a
// token in a file of mode 0600. Connections of other users are closed unread (local_listener.h). For sources that talk
// gRPC: it brings its headers. Thread safety: every method from any thread.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "muster/control/authorize_call.h"
#include "muster/control/local_listener.h"

namespace muster::control {

class LocalService {
 public:
  using MakeService = std::function<std::unique_ptr<grpc::Service>(AuthorizeCall authorize)>;

  // The token goes into `folder`/`name`.token. `limit` sets what the server allows. Throws kIo, kNotFound, kResource.
  LocalService(const std::filesystem::path& folder, const std::string& name, const MakeService& make,
               const std::function<void(grpc::ServerBuilder&)>& limit);
  // In the place of one whose process is gone, at its address(): who knows it goes on with the token that it has.
  // Throws kDamaged (it is no such address), and as read_token, too.
  LocalService(const std::string& address, const MakeService& make,
               const std::function<void(grpc::ServerBuilder&)>& limit);
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;
  // Calls in work get a second to end.
  ~LocalService();

  // "unix-abstract:NAME,TOKEN_FILE", for connect_to().
  const std::string& address() const { return address_; }

 private:
  void serve(const std::string& token, const MakeService& make, const std::function<void(grpc::ServerBuilder&)>& limit);

  std::string address_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;     // ended before the service
  std::unique_ptr<LocalListener> listener_;  // ended before the server
};

// The other end.
struct LocalChannel {
  std::shared_ptr<grpc::Channel> channel;
  std::string token;   // metadata of every call (kTokenKey)
  std::string socket;  // for messages
};
// Whether it is such an address.
bool is_local_service(const std::string& address);
// The file of its token. Throws kDamaged when it is no such address.
std::filesystem::path token_file_of(const std::string& address);
// Throws kPeerLost (nobody listens, or a process of another user does), and as read_token. REQUIRES: is_local_service.
LocalChannel connect_to(const std::string& address, const grpc::ChannelArguments& arguments = {});

}  // namespace muster::control
