// gRPC behind our own listener: connections are handed to it only after their user was looked at. What a call means is
// somebody else's (control_calls.h).
#include "muster/control/control_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "control.grpc.pb.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/access_token.h"
#include "muster/control/grpc_service.h"
#include "muster/control/local_listener.h"
#include "muster/control/wire.h"

namespace muster::control {
namespace {

constexpr std::chrono::seconds kRefusalInterval{10};
constexpr int kMostThreads = 8;

// At most one line in the log for each interval, with the number of calls it stands for.
class RefusalLog {
 public:
  RefusalLog(Log& log, const Clock& clock) : log_(log), clock_(clock) {}

  void refused(const std::string& peer) {
    const MutexLock lock(mutex_);
    ++unreported_;
    const Clock::Instant now = clock_.now();
    if (last_ && now - *last_ < kRefusalInterval) return;
    last_ = now;
    log_.warning(fmt::format("refused {} call(s) that had no right to; the last came from {}", unreported_, peer));
    unreported_ = 0;
  }

 private:
  Log& log_;
  const Clock& clock_;
  Mutex mutex_;
  std::optional<Clock::Instant> last_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t unreported_ MUSTER_GUARDED_BY(mutex_) = 0;
};

class Service final : public v1::Control::Service {
 public:
  Service(ControlCalls& calls, std::string token, Log& log, const Clock& clock)
      : calls_(calls), token_(std::move(token)), refusals_(log, clock) {}

  // Notes a call or a connection that was refused.
  void refuse(const std::string& peer) { refusals_.refused(peer); }

  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest*, v1::StatusReply* reply) override {
    return serve(*context, [&] { to_wire(calls_.status(), *reply); });
  }

  grpc::Status Scale(grpc::ServerContext* context, const v1::ScaleRequest* request, v1::WantedReply* reply) override {
    return serve(*context, [&] { to_wire(calls_.scale(request->request(), scaling_of(*request)), *reply); });
  }

  grpc::Status Stop(grpc::ServerContext* context, const v1::StopRequest* request, v1::WantedReply* reply) override {
    return serve(*context, [&] { to_wire(calls_.stop(request->request()), *reply); });
  }

  grpc::Status Set(grpc::ServerContext* context, const v1::SetRequest* request, v1::SetReply* reply) override {
    return serve(*context, [&] { to_wire(calls_.set(request->request(), request->assignment()), *reply); });
  }

 private:
  bool authorized(const grpc::ServerContext& context) const {
    const auto [begin, end] = context.client_metadata().equal_range(kTokenKey);
    return begin != end && std::next(begin) == end && same_token({begin->second.data(), begin->second.size()}, token_);
  }

  template <typename Body>
  grpc::Status serve(const grpc::ServerContext& context, const Body& body) {
    if (!authorized(context)) {
      refuse("this user or root, without the run's token");
      const grpc::Status told =
          to_status(Error(ErrorKind::kInvalidInput, "the token is not the run's", {},
                          "Use the account that started the run; its token is in control.token."));
      return {grpc::StatusCode::UNAUTHENTICATED, told.error_message(), told.error_details()};
    }
    return answer_call(body);
  }

  ControlCalls& calls_;
  const std::string token_;
  RefusalLog refusals_;
};

}  // namespace

struct ControlServer::Parts {
  std::string address;
  std::unique_ptr<ControlCalls> own_calls;
  std::unique_ptr<Service> service;
  std::unique_ptr<grpc::Server> server;     // ended before the service
  std::unique_ptr<LocalListener> listener;  // ended before the server
};

ControlServer::ControlServer(JobRecord& record, const std::filesystem::path& run, ControlCallbacks callbacks, Log& log,
                             const Clock& clock)
    : parts_(std::make_unique<Parts>()) {
  parts_->own_calls = std::make_unique<RecordedCalls>(record, std::move(callbacks));
  listen(*parts_->own_calls, record, run, log, clock);
}

ControlServer::ControlServer(ControlCalls& calls, JobRecord& record, const std::filesystem::path& run, Log& log,
                             const Clock& clock)
    : parts_(std::make_unique<Parts>()) {
  listen(calls, record, run, log, clock);
}

void ControlServer::listen(ControlCalls& calls, JobRecord& record, const std::filesystem::path& run, Log& log,
                           const Clock& clock) {
  const std::string name = "muster-" + random_hex(16);
  parts_->address = "unix-abstract:" + name;
  parts_->service = std::make_unique<Service>(calls, make_token(token_file(run)), log, clock);
  grpc::ServerBuilder builder;
  limit_server(builder, {kMostThreads, kMostRequestBytes, kMostReplyBytes});
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostThreads);
  builder.RegisterService(parts_->service.get());
  parts_->server = builder.BuildAndStart();
  if (!parts_->server)
    throw Error(ErrorKind::kIo, "the service for commands cannot be started", run.string(),
                "The machine may be out of descriptors or memory.");
  // No encryption: the bytes stay inside this machine's kernel, and both sides look who is at the other end.
  parts_->listener = std::make_unique<LocalListener>(
      name, LocalListener::Callbacks{
                [server = parts_->server.get()](FileDescriptor connection) {
                  grpc::AddInsecureChannelFromFd(server, connection.release());
                },
                [service = parts_->service.get()](uid_t user) { service->refuse(fmt::format("user {}", user)); }});
  record.put_endpoint(parts_->address);
}

ControlServer::~ControlServer() {
  parts_->listener.reset();
  parts_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  parts_->server->Wait();
}

const std::string& ControlServer::address() const {
  return parts_->address;
}

}  // namespace muster::control
