// A port, with a gate before it where there is trust, and the service. An address that cannot be bound is the user's to
// change, so what is said names it.
#include "muster/control/cluster_server.h"

#include <arpa/inet.h>

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/text.h"
#include "muster/control/audit.h"
#include "muster/control/cluster_service.h"
#include "muster/control/credentials.h"
#include "muster/control/tcp_gate.h"

namespace muster::control {
namespace {

// The host's part of "HOST:PORT", without brackets.
std::string host_part(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stoi(port) > 65535 || colon == 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no address with a port", excerpt(address, 80)), {},
                "Give a host and a port, as 10.0.0.1:7400.");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace

struct ClusterServer::Parts {
  explicit Parts(std::function<void(const std::string&)> its_note) : note(std::move(its_note)) {}

  const std::function<void(const std::string&)> note;
  Log log{LogLevel::kWarning};
  Audit audit{[this](const std::string& line, bool refusal) {
    if (refusal) log.warning(line);  // people should see it
    note(line);
  }};
  std::optional<ServerTrust> trust;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;  // ended before the service
  std::optional<TcpGate> gate;
};

ClusterServer::ClusterServer(ClusterCalls& calls, const ClusterListen& listen)
    : parts_(std::make_unique<Parts>(listen.note)) {
  host_part(listen.address);
  if (listen.trust.any()) parts_->trust.emplace(make_server_trust(listen.trust, parts_->audit));
  parts_->service =
      make_cluster_service(calls, parts_->trust ? parts_->trust->authorize : AuthorizeCall(),
                           [&audit = parts_->audit](const grpc::ServerContextBase& context, const Error& error) {
                             audit.refused({.who = {}, .what = "Join", .from = context.peer()}, error.message());
                           });
  grpc::ServerBuilder builder;
  limit_cluster_server(builder);
  // Two coordinators on one port would each get some of the agents.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int port = 0;
  if (parts_->trust) {
    limit_strangers(builder);
    parts_->gate.emplace(builder, listen.address, *parts_->trust, parts_->audit);
  } else {
    builder.AddListeningPort(listen.address, grpc::InsecureServerCredentials(), &port);
  }
  builder.RegisterService(parts_->service.get());
  parts_->server = builder.BuildAndStart();
  if (!parts_->server || (port == 0 && !parts_->gate))
    throw Error(ErrorKind::kIo, "cannot listen for agents", listen.address,
                "Is it an address of this machine, and is the port free?");
  address_ = parts_->gate ? parts_->gate->address()
                          : fmt::format("{}:{}", listen.address.substr(0, listen.address.rfind(':')), port);
  if (parts_->gate) parts_->gate->open();
}

ClusterServer::~ClusterServer() {
  parts_->gate.reset();
  parts_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  parts_->server->Wait();
}

bool is_loopback(const std::string& address) {
  const std::string host = host_part(address);
  if (host == "localhost") return true;
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

void require_may_listen(const std::string& address, bool protected_by_credentials, bool insecure) {
  if (is_loopback(address) || protected_by_credentials || insecure) return;
  throw Error(ErrorKind::kInvalidInput, "others can reach this address, and nothing would tell friend from foe",
              address,
              "Give --certs with a folder that `muster certs create` makes for the coordinator; or listen on "
              "127.0.0.1; or, on a network where you trust every machine, type --insecure.");
}

void require_may_join(const std::string& address, bool protected_by_credentials, bool insecure) {
  if (is_loopback(address) || protected_by_credentials || insecure) return;
  throw Error(ErrorKind::kInvalidInput, "whoever answers there could run programs here: nothing tells who it is",
              address,
              "Give --certs with a folder that `muster certs create` makes for an agent; or, on a network where you "
              "trust every machine, type --insecure.");
}

}  // namespace muster::control
