// Each call within its time, over one connection (coordinator_channel.h) that an Attendant keeps alive. Calls name the
// life of the coordinator that was joined: numbers of hosts are those of one life.
#include "muster/control/cluster_client.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cluster.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/control/attendant.h"
#include "muster/control/cluster_wire.h"
#include "muster/control/coordinator_channel.h"
#include "muster/control/wire.h"

namespace muster::control {
namespace {

constexpr std::chrono::milliseconds kAnswerTime{3000};  // beyond what a call was asked to wait
constexpr std::chrono::milliseconds kTellingTime{500};  // in which a coordinator hears of another one

}  // namespace

struct ClusterClient::Parts {
  const std::string where;
  const std::string token;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Cluster::Stub> stub;
  std::optional<Attendant> attendant;  // of a connection that may have to be made again
};

ClusterClient::ClusterClient(const ClusterTarget& target)
    : ClusterClient(channel_to_coordinator(target), target.address, {}) {
  parts_->attendant.emplace(parts_->channel);
}

ClusterClient::ClusterClient(std::shared_ptr<grpc::Channel> channel, std::string where, std::string token) {
  auto stub = v1::Cluster::NewStub(channel);
  parts_.reset(new Parts{std::move(where), std::move(token), std::move(channel), std::move(stub), {}});
}

ClusterClient::~ClusterClient() = default;

template <typename Call>
void ClusterClient::call(std::chrono::milliseconds longest, const Call& call) const {
  grpc::ClientContext context;
  if (!parts_->token.empty()) context.AddMetadata(kTokenKey, parts_->token);
  {
    const MutexLock lock(mutex_);
    if (!cluster_.empty()) context.AddMetadata(kClusterKey, cluster_);
  }
  context.set_deadline(std::chrono::system_clock::now() + longest + kAnswerTime);
  const grpc::Status status = call(*parts_->stub, context);
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details().empty())
    throw unreachable(status, parts_->where);
  if (!status.ok()) throw from_status(status, parts_->where);
}

void ClusterClient::tell_of(const std::string& life) {
  {
    const MutexLock lock(mutex_);
    cluster_ = life;
  }
  v1::StoreGetRequest request;
  request.set_key("term");
  v1::StoreGetReply reply;
  try {
    call(kTellingTime - kAnswerTime,
         [&](auto& stub, auto& context) { return stub.StoreGet(&context, request, &reply); });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;  // that it refuses is all that it can say
  }
}

Welcome ClusterClient::join(const HostCard& card) {
  v1::JoinRequest request;
  to_wire(card, request);
  v1::JoinReply reply;
  call({}, [&](auto& stub, auto& context) { return stub.Join(&context, request, &reply); });
  Welcome welcome = from_wire(reply);
  const MutexLock lock(mutex_);
  cluster_ = welcome.life.empty() ? welcome.cluster : welcome.life;
  return welcome;
}

Orders ClusterClient::report(const HostReport& report, std::uint64_t known, std::chrono::milliseconds wait) {
  v1::ReportRequest request;
  to_wire(report, request);
  request.set_known(known);
  request.set_wait_ms(static_cast<std::uint32_t>(wait.count()));
  v1::ReportReply reply;
  call(wait, [&](auto& stub, auto& context) { return stub.Report(&context, request, &reply); });
  return from_wire(reply);
}

void ClusterClient::store_set(std::uint64_t host, std::string_view key, std::string_view value) {
  v1::StoreSetRequest request;
  request.set_host(host);
  request.set_key(std::string(key));
  request.set_value(std::string(value));
  v1::StoreSetReply reply;
  call({}, [&](auto& stub, auto& context) { return stub.StoreSet(&context, request, &reply); });
}

std::optional<std::string> ClusterClient::store_get(std::uint64_t host, std::string_view key,
                                                    std::chrono::milliseconds wait) {
  v1::StoreGetRequest request;
  request.set_host(host);
  request.set_key(std::string(key));
  request.set_wait_ms(static_cast<std::uint32_t>(wait.count()));
  v1::StoreGetReply reply;
  call(wait, [&](auto& stub, auto& context) { return stub.StoreGet(&context, request, &reply); });
  return reply.has_value() ? std::optional(reply.value()) : std::nullopt;
}

void ClusterClient::leave(std::uint64_t host, int code, const std::string& reason) {
  v1::LeaveRequest request;
  request.set_host(host);
  request.set_code(code);
  request.set_reason(reason);
  v1::LeaveReply reply;
  call({}, [&](auto& stub, auto& context) { return stub.Leave(&context, request, &reply); });
}

JobStatus ClusterClient::host_status(std::uint64_t host) {
  v1::HostStatusRequest request;
  request.set_host(host);
  v1::StatusReply reply;
  call({}, [&](auto& stub, auto& context) { return stub.HostStatus(&context, request, &reply); });
  return from_wire(reply);
}

WantedState ClusterClient::host_scale(std::uint64_t host, const std::string& request, const Scaling& scaling) {
  v1::HostScaleRequest message;
  message.set_host(host);
  to_wire(request, scaling, *message.mutable_command());
  v1::WantedReply reply;
  call({}, [&](auto& stub, auto& context) { return stub.HostScale(&context, message, &reply); });
  return from_wire(reply);
}

WantedState ClusterClient::host_stop(std::uint64_t host, const std::string& request) {
  v1::HostStopRequest message;
  message.set_host(host);
  message.mutable_command()->set_request(request);
  v1::WantedReply reply;
  call({}, [&](auto& stub, auto& context) { return stub.HostStop(&context, message, &reply); });
  return from_wire(reply);
}

Change ClusterClient::host_set(std::uint64_t host, const std::string& request, const std::string& assignment) {
  v1::HostSetRequest message;
  message.set_host(host);
  message.mutable_command()->set_request(request);
  message.mutable_command()->set_assignment(assignment);
  v1::SetReply reply;
  call({}, [&](auto& stub, auto& context) { return stub.HostSet(&context, message, &reply); });
  return from_wire(reply, assignment);
}

}  // namespace muster::control
