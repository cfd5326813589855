// Each call: is the caller allowed, read, reply with a checksum; limits as the header says. Who may call and how is the
// port's (guarded_port.h).
#include "muster/control/shard_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "muster/control/grpc_service.h"
#include "muster/control/guarded_port.h"
#include "muster/control/shard_wire.h"
#include "shards.grpc.pb.h"

namespace muster::control {
namespace {

constexpr int kMostShardThreads = 64;
constexpr std::chrono::seconds kDiskTime{30};

class ShardHostService final : public v1::ShardHost::Service {
 public:
  ShardHostService(data::ShardCalls& calls, AuthorizeCall authorize)
      : calls_(calls), authorize_(std::move(authorize)) {}

  grpc::Status Catalog(grpc::ServerContext* context, const v1::CatalogRequest*, v1::CatalogReply* reply) override {
    return answer_call(authorize_, *context, "Catalog",
                       [&] { to_wire(calls_.catalog(Deadline::after(kDiskTime)), *reply); });
  }

  grpc::Status ReadShard(grpc::ServerContext* context, const v1::ReadShardRequest* request,
                         v1::ReadShardReply* reply) override {
    return answer_call(authorize_, *context, "ReadShard", [&] {
      to_wire(calls_.read(request->print(), request->shard(), request->offset(), request->bytes(),
                          Deadline::after(kDiskTime)),
              *reply);
    });
  }

 private:
  data::ShardCalls& calls_;
  const AuthorizeCall authorize_;
};

}  // namespace

struct ShardServer::Parts {
  explicit Parts(const ClusterListen& listen) : port(listen) {}
  GuardedPort port;
};

ShardServer::ShardServer(data::ShardCalls& calls, const ClusterListen& listen)
    : parts_(std::make_unique<Parts>(listen)) {
  parts_->port.open(
      std::make_unique<ShardHostService>(calls, parts_->port.authorize()),
      [](grpc::ServerBuilder& builder) {
        limit_server(builder, {kMostShardThreads, kMostShardRequestBytes, kMostShardReplyBytes});
      },
      "hosts that want data");
}

ShardServer::~ShardServer() = default;

const std::string& ShardServer::address() const {
  return parts_->port.address();
}

}  // namespace muster::control
