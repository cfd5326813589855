// No encryption: the bytes stay inside this machine's kernel, and both sides look who is at the other end. The token is
// for processes of the same user that are none of the job's.
#include "muster/control/local_service.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/server_posix.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/control/access_token.h"
#include "muster/control/local_connection.h"
#include "muster/control/wire.h"

namespace muster::control {
namespace {

constexpr std::chrono::seconds kLocalConnectTime{5};
constexpr std::string_view kScheme = "unix-abstract:";

AuthorizeCall with_token(std::string token) {
  return [token = std::move(token)](const grpc::ServerContextBase& context, std::string_view) -> grpc::Status {
    const auto [begin, end] = context.client_metadata().equal_range(kTokenKey);
    if (begin != end && std::next(begin) == end && same_token({begin->second.data(), begin->second.size()}, token))
      return grpc::Status::OK;
    const grpc::Status told = to_status(Error(ErrorKind::kInvalidInput, "the token is not that of this host's agent"));
    return {grpc::StatusCode::UNAUTHENTICATED, told.error_message(), told.error_details()};
  };
}

}  // namespace

LocalService::LocalService(const std::filesystem::path& folder, const std::string& name, const MakeService& make,
                           const std::function<void(grpc::ServerBuilder&)>& limit) {
  const std::filesystem::path token = folder / (name + ".token");
  address_ = fmt::format("{}muster-{},{}", kScheme, random_hex(16), token.string());
  serve(make_token(token), make, limit);
}

LocalService::LocalService(const std::string& address, const MakeService& make,
                           const std::function<void(grpc::ServerBuilder&)>& limit)
    : address_(address) {
  serve(read_token(token_file_of(address)), make, limit);
}

void LocalService::serve(const std::string& token, const MakeService& make,
                         const std::function<void(grpc::ServerBuilder&)>& limit) {
  const std::string socket = address_.substr(kScheme.size(), address_.find(',') - kScheme.size());
  service_ = make(with_token(token));
  grpc::ServerBuilder builder;
  limit(builder);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (!server_)
    throw Error(ErrorKind::kIo, "the door for workers cannot be opened", address_,
                "The machine may be out of descriptors or memory.");
  listener_ = std::make_unique<LocalListener>(
      socket, LocalListener::Callbacks{[server = server_.get()](FileDescriptor connection) {
                                         grpc::AddInsecureChannelFromFd(server, connection.release());
                                       },
                                       [](uid_t) {}});
}

LocalService::~LocalService() {
  listener_.reset();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_->Wait();
}

bool is_local_service(const std::string& address) {
  const std::size_t comma = address.find(',');
  return comma != std::string::npos && is_local(address.substr(0, comma));
}

std::filesystem::path token_file_of(const std::string& address) {
  const std::size_t comma = address.find(',');
  if (comma == std::string::npos || !address.starts_with(kScheme))
    throw Error(ErrorKind::kDamaged, fmt::format("\"{}\" is no address of an agent's door", excerpt(address, 80)));
  return address.substr(comma + 1);
}

LocalChannel connect_to(const std::string& address, const grpc::ChannelArguments& arguments) {
  const std::size_t comma = address.find(',');
  LocalChannel made;
  made.socket = address.substr(0, comma);
  made.token = read_token(address.substr(comma + 1));
  FileDescriptor connection = connect_local(made.socket, ::geteuid(), "agent", Deadline::after(kLocalConnectTime));
  made.channel = grpc::CreateCustomInsecureChannelFromFd("agent", connection.release(), arguments);
  return made;
}

}  // namespace muster::control
