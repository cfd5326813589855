// The order in which a port comes and goes: trust, gate, server; and back, the gate first, so that nobody comes in any
// more. An address that cannot be bound is the user's to change, so what is said names it.
#include "muster/control/guarded_port.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::control {

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
