// Each call: is the caller allowed, translate, ask, translate back. Calls that wait hold a thread each, so only so many
// do; the others are told at once that there is nothing new, and come again.
#include "muster/control/cluster_service.h"

#include <atomic>
#include <utility>

#include "muster/base/error.h"
#include "muster/control/cluster_wire.h"
#include "muster/control/grpc_service.h"

namespace muster::control {
namespace {

constexpr int kMostClusterThreads = 320;
constexpr int kMostWaits = 256;
constexpr int kShortestPingMs = 1'000;  // between two, of clients that look whether the way still stands

// One of the waits that may hold a thread, for its scope.
class Waiting {
 public:
  Waiting(std::atomic<int>& waits, std::chrono::milliseconds asked) : waits_(waits) {
    allowed_ = waits_.fetch_add(1) < kMostWaits ? asked : std::chrono::milliseconds(0);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { --waits_; }
  std::chrono::milliseconds allowed() const { return allowed_; }

 private:
  std::atomic<int>& waits_;
  std::chrono::milliseconds allowed_{};
};

class ClusterService final : public v1::Cluster::Service {
 public:
  ClusterService(ClusterCalls& calls, AuthorizeCall authorize, JoinRefused refused)
      : calls_(calls), authorize_(std::move(authorize)), refused_(std::move(refused)) {}

  grpc::Status Join(grpc::ServerContext* context, const v1::JoinRequest* request, v1::JoinReply* reply) override {
    return answer(*context, "Join", [&] {
      try {
        to_wire(calls_.join(from_wire(*request)), *reply);
      } catch (const Error& error) {
        if (refused_) refused_(*context, error);
        throw;
      }
    });
  }

  grpc::Status Report(grpc::ServerContext* context, const v1::ReportRequest* request, v1::ReportReply* reply) override {
    return answer(*context, "Report", [&] {
      const Waiting waiting(waits_, bounded_wait(request->wait_ms()));
      to_wire(calls_.report(from_wire(*request), request->known(), waiting.allowed()), *reply);
    });
  }

  grpc::Status StoreSet(grpc::ServerContext* context, const v1::StoreSetRequest* request, v1::StoreSetReply*) override {
    return answer(*context, "StoreSet", [&] { calls_.store_set(request->host(), request->key(), request->value()); });
  }

  grpc::Status StoreGet(grpc::ServerContext* context, const v1::StoreGetRequest* request,
                        v1::StoreGetReply* reply) override {
    return answer(*context, "StoreGet", [&] {
      const Waiting waiting(waits_, bounded_wait(request->wait_ms()));
      if (auto value = calls_.store_get(request->host(), request->key(), waiting.allowed()))
        reply->set_value(*std::move(value));
    });
  }

  grpc::Status Leave(grpc::ServerContext* context, const v1::LeaveRequest* request, v1::LeaveReply*) override {
    return answer(*context, "Leave", [&] { calls_.leave(request->host(), request->code(), request->reason()); });
  }

  grpc::Status HostStatus(grpc::ServerContext* context, const v1::HostStatusRequest* request,
                          v1::StatusReply* reply) override {
    return answer(*context, "HostStatus", [&] { to_wire(calls_.host_status(request->host()), *reply); });
  }

  grpc::Status HostScale(grpc::ServerContext* context, const v1::HostScaleRequest* request,
                         v1::WantedReply* reply) override {
    return answer(*context, "HostScale", [&] {
      const v1::ScaleRequest& command = request->command();
      to_wire(calls_.host_scale(request->host(), command.request(), scaling_of(command)), *reply);
    });
  }

  grpc::Status HostStop(grpc::ServerContext* context, const v1::HostStopRequest* request,
                        v1::WantedReply* reply) override {
    return answer(*context, "HostStop",
                  [&] { to_wire(calls_.host_stop(request->host(), request->command().request()), *reply); });
  }

  grpc::Status HostSet(grpc::ServerContext* context, const v1::HostSetRequest* request, v1::SetReply* reply) override {
    return answer(*context, "HostSet", [&] {
      const v1::SetRequest& command = request->command();
      to_wire(calls_.host_set(request->host(), command.request(), command.assignment()), *reply);
    });
  }

 private:
  template <typename Body>
  grpc::Status answer(const grpc::ServerContext& context, std::string_view call, const Body& body) const {
    return answer_call(authorize_, context, call, [&] {
      if (call != "Join") require_same_cluster(context);
      body();
    });
  }

  // A number of another life of the coordinator may be somebody else's in this one.
  void require_same_cluster(const grpc::ServerContext& context) const {
    const std::string identity = calls_.identity();
    if (identity.empty()) return;
    const auto found = context.client_metadata().find(kClusterKey);
    if (found != context.client_metadata().end()) {
      const std::string life(found->second.data(), found->second.size());
      if (life == identity) return;
      calls_.met(life);
    }
    throw Error(ErrorKind::kNotFound, "this host has not joined the coordinator that answers here");
  }

  ClusterCalls& calls_;
  const AuthorizeCall authorize_;
  const JoinRefused refused_;
  std::atomic<int> waits_{0};
};

}  // namespace

std::unique_ptr<grpc::Service> make_cluster_service(ClusterCalls& calls, AuthorizeCall authorize, JoinRefused refused) {
  return std::make_unique<ClusterService>(calls, std::move(authorize), std::move(refused));
}

void limit_cluster_server(grpc::ServerBuilder& builder) {
  limit_server(builder, {kMostClusterThreads, kMostClusterRequestBytes, kMostClusterReplyBytes});
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kShortestPingMs);
}

}  // namespace muster::control
