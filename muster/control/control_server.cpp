// gRPC behind our own listener: connections are handed to it only after their user was looked at. What a call means is
// somebody else's (control_calls.h).
#include "muster/control/control_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/access_token.h"
#include "muster/control/authorize_call.h"
#include "muster/control/control_service.h"
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

// Whether the call has the run's token, once.
AuthorizeCall with_token(std::string token, RefusalLog& refusals) {
  return [token = std::move(token), &refusals](const grpc::ServerContextBase& context, std::string_view) {
    const auto [begin, end] = context.client_metadata().equal_range(kTokenKey);
    if (begin != end && std::next(begin) == end && same_token({begin->second.data(), begin->second.size()}, token))
      return grpc::Status::OK;
    refusals.refused("this user or root, without the run's token");
    const grpc::Status told = to_status(Error(ErrorKind::kInvalidInput, "the token is not the run's", {},
                                              "Use the account that started the run; its token is in control.token."));
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, told.error_message(), told.error_details());
  };
}

}  // namespace

struct ControlServer::Parts {
  Parts(Log& log, const Clock& clock) : refusals(log, clock) {}

  RefusalLog refusals;
  std::string address;
  std::unique_ptr<ControlCalls> own_calls;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;     // ended before the service
  std::unique_ptr<LocalListener> listener;  // ended before the server
};

ControlServer::ControlServer(JobRecord& record, const std::filesystem::path& run, ControlCallbacks callbacks, Log& log,
                             const Clock& clock)
    : parts_(std::make_unique<Parts>(log, clock)) {
  parts_->own_calls = std::make_unique<RecordedCalls>(record, std::move(callbacks));
  listen(*parts_->own_calls, record, run);
}

ControlServer::ControlServer(ControlCalls& calls, JobRecord& record, const std::filesystem::path& run, Log& log,
                             const Clock& clock)
    : parts_(std::make_unique<Parts>(log, clock)) {
  listen(calls, record, run);
}

void ControlServer::listen(ControlCalls& calls, JobRecord& record, const std::filesystem::path& run) {
  const std::string name = "muster-" + random_hex(16);
  parts_->address = "unix-abstract:" + name;
  parts_->service = make_control_service(calls, with_token(make_token(token_file(run)), parts_->refusals));
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
                [parts = parts_.get()](uid_t user) { parts->refusals.refused(fmt::format("user {}", user)); }});
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
