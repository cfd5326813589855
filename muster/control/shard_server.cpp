// A port, with a gate before it where there is trust, and the service, as cluster_server.cpp has them. Each call: is
// the caller allowed, read, reply with a checksum; limits as the header says.
#include "muster/control/shard_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/control/audit.h"
#include "muster/control/credentials.h"
#include "muster/control/shard_wire.h"
#include "muster/control/tcp_gate.h"
#include "muster/control/wire.h"
#include "shards.grpc.pb.h"

namespace muster::control {
namespace {

constexpr int kMostShardThreads = 64;
constexpr int kMostShardMetadataBytes = 4 * 1024;
constexpr std::chrono::seconds kDiskTime{30};

class ShardHostService final : public v1::ShardHost::Service {
 public:
  ShardHostService(data::ShardCalls& calls, AuthorizeCall authorize)
      : calls_(calls), authorize_(std::move(authorize)) {}

  grpc::Status Catalog(grpc::ServerContext* context, const v1::CatalogRequest*, v1::CatalogReply* reply) override {
    return answer(*context, "Catalog", [&] { to_wire(calls_.catalog(Deadline::after(kDiskTime)), *reply); });
  }

  grpc::Status ReadShard(grpc::ServerContext* context, const v1::ReadShardRequest* request,
                         v1::ReadShardReply* reply) override {
    return answer(*context, "ReadShard", [&] {
      to_wire(calls_.read(request->print(), request->shard(), request->offset(), request->bytes(),
                          Deadline::after(kDiskTime)),
              *reply);
    });
  }

 private:
  template <typename Body>
  grpc::Status answer(const grpc::ServerContext& context, std::string_view call, const Body& body) const {
    if (authorize_) {
      if (grpc::Status status = authorize_(context, call); !status.ok()) return status;
    }
    try {
      body();
      return grpc::Status::OK;
    } catch (const Error& error) {
      return to_status(error);
    } catch (const std::exception& error) {
      return {grpc::StatusCode::INTERNAL, error.what()};
    }
  }

  data::ShardCalls& calls_;
  const AuthorizeCall authorize_;
};

}  // namespace

struct ShardServer::Parts {
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

ShardServer::ShardServer(data::ShardCalls& calls, const ClusterListen& listen)
    : parts_(std::make_unique<Parts>(listen.note)) {
  is_loopback(listen.address);  // throws for what is no address
  if (listen.trust.any()) parts_->trust.emplace(make_server_trust(listen.trust, parts_->audit));
  parts_->service =
      std::make_unique<ShardHostService>(calls, parts_->trust ? parts_->trust->authorize : AuthorizeCall());
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(kMostShardThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  builder.SetMaxReceiveMessageSize(kMostShardRequestBytes);
  builder.SetMaxSendMessageSize(kMostShardReplyBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMostShardMetadataBytes);
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
    throw Error(ErrorKind::kIo, "cannot listen for hosts that want data", listen.address,
                "Is it an address of this machine, and is the port free?");
  address_ = parts_->gate ? parts_->gate->address()
                          : fmt::format("{}:{}", listen.address.substr(0, listen.address.rfind(':')), port);
  if (parts_->gate) parts_->gate->open();
}

ShardServer::~ShardServer() {
  parts_->gate.reset();
  parts_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  parts_->server->Wait();
}

}  // namespace muster::control
