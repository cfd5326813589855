// Limits of a server. One queue, and two threads that wait at it: calls are few and long, and each has a thread of its
// own while it lasts.
#include "muster/control/grpc_service.h"

#include <grpcpp/resource_quota.h>

namespace muster::control {

void limit_server(grpc::ServerBuilder& builder, const ServerLimits& limits) {
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(limits.threads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  builder.SetMaxReceiveMessageSize(limits.request_bytes);
  builder.SetMaxSendMessageSize(limits.reply_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits.metadata_bytes);
}

}  // namespace muster::control
