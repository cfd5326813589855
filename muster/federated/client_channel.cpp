// Pauses between attempts are short, since a server that was killed is started again; proxies of the environment are
// not for calls between those who train together.
#include "muster/federated/client_channel.h"

#include "muster/base/error.h"
#include "muster/control/attendant.h"
#include "muster/control/credentials.h"
#include "muster/control/wire.h"

namespace muster::federated {
namespace {

constexpr int kFirstFederatedReconnectMs = 100;
constexpr int kLongestFederatedReconnectMs = 1000;
constexpr int kMostReplyBytes = 16 << 20;  // a job and the form of its data may be longer than a chunk

}  // namespace

std::shared_ptr<grpc::Channel> make_client_channel(const control::ClusterTarget& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostReplyBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstFederatedReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, control::kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestFederatedReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  control::expect_coordinator(target.trust, arguments);
  return grpc::CreateCustomChannel(
      target.address,
      target.trust.any() ? control::make_channel_credentials(target.trust) : grpc::InsecureChannelCredentials(),
      arguments);
}

void require_answer(const grpc::Status& status, const std::string& where) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details().empty())
    throw Error(ErrorKind::kPeerLost, "no server answers, or not as one that is trusted", where,
                "Is it there, and do both sides have certificates of one authority, or none?");
  if (!status.ok()) throw control::from_status(status, where);
}

}  // namespace muster::federated
