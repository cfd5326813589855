// What comes is looked at before it is given on (shard_wire.h). gRPC's own pause between two attempts to connect is
// kept short, as for the coordinator.
#include "muster/control/shard_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/control/credentials.h"
#include "muster/control/shard_wire.h"
#include "muster/control/wire.h"
#include "shards.grpc.pb.h"

namespace muster::control {
namespace {

constexpr int kFirstShardReconnectMs = 100;
constexpr int kLongestShardReconnectMs = 1000;

std::shared_ptr<grpc::Channel> channel_to_shards(const ClusterTarget& target, const std::string& known_as) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostShardReplyBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstShardReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kFirstShardReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestShardReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!known_as.empty() && !target.trust.token.empty()) arguments.SetSslTargetNameOverride(known_as);
  expect_coordinator(target.trust, arguments);
  return grpc::CreateCustomChannel(
      target.address, target.trust.any() ? make_channel_credentials(target.trust) : grpc::InsecureChannelCredentials(),
      arguments);
}

class ShardClient final : public data::ShardCalls {
 public:
  ShardClient(const ClusterTarget& target, const std::string& known_as)
      : where_(target.address), stub_(v1::ShardHost::NewStub(channel_to_shards(target, known_as))) {}

  data::ShardCatalog catalog(const Deadline& deadline) override {
    v1::CatalogReply reply;
    call(deadline, [&](grpc::ClientContext& context) { return stub_->Catalog(&context, {}, &reply); });
    return from_wire(reply, where_);
  }

  std::vector<std::byte> read(const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes,
                              const Deadline& deadline) override {
    v1::ReadShardRequest request;
    request.set_print(print);
    request.set_shard(static_cast<std::uint32_t>(shard));
    request.set_offset(offset);
    request.set_bytes(bytes);
    v1::ReadShardReply reply;
    call(deadline, [&](grpc::ClientContext& context) { return stub_->ReadShard(&context, request, &reply); });
    return from_wire(reply, bytes, where_);
  }

 private:
  template <typename Call>
  void call(const Deadline& deadline, const Call& call) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining()));
    const grpc::Status status = call(context);
    if (!status.ok()) throw from_status(status, where_);
  }

  const std::string where_;
  const std::unique_ptr<v1::ShardHost::Stub> stub_;
};

}  // namespace

std::shared_ptr<data::ShardCalls> make_shard_client(const ClusterTarget& target, const std::string& known_as) {
  return std::make_shared<ShardClient>(target, known_as);
}

}  // namespace muster::control
