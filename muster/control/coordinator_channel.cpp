// gRPC's own pause between two attempts to connect grows to minutes; a coordinator that comes back is looked for every
// second. What it takes to get through a handshake with gRPC 1.51 is told at kConnectMs and Attendant.
#include "muster/control/coordinator_channel.h"

#include <fmt/format.h>

#include "muster/base/text.h"
#include "muster/control/attendant.h"
#include "muster/control/cluster_wire.h"
#include "muster/control/credentials.h"

namespace muster::control {
namespace {

constexpr int kFirstReconnectMs = 100;
constexpr int kLongestReconnectMs = 1000;
// A connection over a link that was cut is given up, so that another one is made as soon as there is a way again.
constexpr int kKeepaliveMs = 5'000;
constexpr std::string_view kLastError = "last error: ";  // in what gRPC says of attempts to connect

}  // namespace

std::shared_ptr<grpc::Channel> channel_to_coordinator(const ClusterTarget& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostClusterReplyBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Proxies of the environment are for the web, not for here; and two agents of one process have a connection each.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  expect_coordinator(target.trust, arguments);
  return grpc::CreateCustomChannel(
      target.address, target.trust.any() ? make_channel_credentials(target.trust) : grpc::InsecureChannelCredentials(),
      arguments);
}

// What gRPC says of it tells which.
Error unreachable(const grpc::Status& status, const std::string& where) {
  const std::string& said = status.error_message();
  const std::size_t last = said.rfind(kLastError);
  const bool handshake = said.find("andshake") != std::string::npos;
  return Error(ErrorKind::kPeerLost,
               fmt::format("the coordinator cannot be reached ({})",
                           excerpt(last == std::string::npos ? said : said.substr(last + kLastError.size()), 200)),
               where,
               handshake ? "Is it protected in the same way as this side, by certificates of one authority (--certs)? "
                           "Its audit says why it refuses."
                         : "Does it run, and is that its address?");
}

}  // namespace muster::control
