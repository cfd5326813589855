// The order in which a port comes and goes: trust, gate, server; and back, the gate first, so that nobody comes in any
// more. An address that cannot be bound is the user's to change, so what is said names it.
#include "muster/control/guarded_port.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::control {
namespace {

// Why gRPC, which would tell nobody but standard error, could not listen there; empty: it can, or will say so itself.
std::string listening_obstacle(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const FileDescriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return {};
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0 && ::listen(socket.get(), 1) == 0) return {};
  return std::strerror(errno);
}

}  // namespace

GuardedPort::GuardedPort(const ClusterListen& listen)
    : listen_(listen), audit_([this](const std::string& line, bool refusal) {
        if (refusal) log_.warning(line);
        listen_.note(line);
      }) {
  is_loopback(listen_.address);  // throws for what is no address
  if (listen_.trust.any()) trust_.emplace(make_server_trust(listen_.trust, audit_));
}

void GuardedPort::open(std::unique_ptr<grpc::Service> service, const std::function<void(grpc::ServerBuilder&)>& limit,
                       std::string_view whom) {
  add(std::move(service));
  grpc::ServerBuilder builder;
  limit(builder);
  // Two servers on one port would each get some of the callers.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int port = 0;
  if (trust_) {
    limit_strangers(builder);
    gate_.emplace(builder, listen_.address, *trust_, audit_);
  } else {
    if (const std::string obstacle = listening_obstacle(listen_.address); !obstacle.empty())
      throw Error(ErrorKind::kIo, fmt::format("cannot listen for {}: {}", whom, obstacle), listen_.address,
                  "Is it an address of this machine, and is the port free?");
    builder.AddListeningPort(listen_.address, grpc::InsecureServerCredentials(), &port);
  }
  for (const std::unique_ptr<grpc::Service>& each : services_)
    builder.RegisterService(each.get());
  server_ = builder.BuildAndStart();
  if (!server_ || (port == 0 && !gate_))
    throw Error(ErrorKind::kIo, fmt::format("cannot listen for {}", whom), listen_.address,
                "Is it an address of this machine, and is the port free?");
  address_ =
      gate_ ? gate_->address() : fmt::format("{}:{}", listen_.address.substr(0, listen_.address.rfind(':')), port);
  if (gate_) gate_->open();
}

GuardedPort::~GuardedPort() {
  gate_.reset();
  if (!server_) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_->Wait();
}

}  // namespace muster::control
