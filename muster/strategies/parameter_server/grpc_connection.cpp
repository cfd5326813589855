// A client's end. One thread reads the stream and one writes it; the thread of the Connection meets them at queues
// only, so that no call of it waits for the network but those that say so.
#include <grpcpp/create_channel_posix.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/check.h"
#include "muster/comm/copy.h"
#include "muster/control/credentials.h"
#include "muster/control/local_connection.h"
#include "muster/strategies/parameter_server/grpc_transport.h"
#include "muster/strategies/parameter_server/grpc_wire.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::hours kLongestWait{1};
// A call that is cancelled ends when what it was writing is out: to a host that has gone without a word that is never,
// unless the kernel gives the connection up. It does when nothing was acknowledged for so long; gRPC asks it to where
// pings are on, which need not come often for that.
constexpr int kUnacknowledgedMilliseconds = 5'000;
constexpr int kPingMilliseconds = 3'600'000;

std::chrono::nanoseconds left(const Deadline& deadline) {
  return std::min<std::chrono::nanoseconds>(deadline.remaining(), kLongestWait);
}

std::shared_ptr<grpc::Channel> connect_channel(const std::string& address, const control::TrustOptions& trust,
                                               const Deadline& deadline) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostFrame);
  arguments.SetMaxSendMessageSize(kMostFrame);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttpFrame);
  // A connection of its own: one that broke does not delay the next.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // On a Unix socket nothing is sent before it is known that a process of this user listens: the name of a server that
  // has died is anybody's. Whether it answers shows with the first stream.
  if (control::is_local(address))
    return grpc::CreateCustomInsecureChannelFromFd(
        kGrpcPlace, control::connect_local(address, ::geteuid(), kGrpcPlace, deadline).release(), arguments);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kUnacknowledgedMilliseconds);
  if (trust.any()) control::expect_coordinator(trust, arguments);
  const auto channel = grpc::CreateCustomChannel(
      address, trust.any() ? control::make_channel_credentials(trust) : grpc::InsecureChannelCredentials(), arguments);
  for (grpc_connectivity_state state = channel->GetState(true); state != GRPC_CHANNEL_READY;
       state = channel->GetState(true)) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN)
      throw Error(ErrorKind::kPeerLost, "nobody serves there", address);
    if (!channel->WaitForStateChange(state, std::chrono::system_clock::now() + left(deadline)))
      throw Error(ErrorKind::kTimeout, "the deadline passed: the server cannot be reached", address);
  }
  return channel;
}

class GrpcConnection final : public Connection {
 public:
  GrpcConnection(const std::string& address, const std::string& token, std::uint32_t client,
                 const TransportLimits& limits, const Deadline& deadline, const control::TrustOptions& trust)
      : address_(address), limits_(limits), channel_(connect_channel(address, trust, deadline)) {
    context_.AddMetadata(kTokenKey, token);
    context_.AddMetadata(kClientKey, std::to_string(client));
    stream_ = wire::ParameterServer::NewStub(channel_)->Calls(&context_);
    reader_ = std::thread([this] { run(); });
    try {
      wait_until_accepted(deadline);
    } catch (...) {
      stop();
      throw;
    }
  }

  ~GrpcConnection() override { stop(); }

  std::optional<Call> try_start(const Request& request, std::span<const std::byte> body,
                                std::span<std::byte> reply) override {
    MUSTER_CHECK(body.size() <= limits_.most_body, "a request has at most most_body bytes");
    collect();
    if (under_way_ >= limits_.window) {
      throw_if_ended();
      return std::nullopt;
    }
    throw_if_ended();
    const Call call = next_++;
    calls_.emplace(call, Pending{reply});
    ++under_way_;
    out_.put(call, request, body);
    return call;
  }

  bool done(Call call) override {
    collect();
    const Pending& pending = find(call);
    if (!pending.finished) throw_if_ended();
    return pending.finished;
  }

  Reply wait(Call call, const Deadline& deadline) override {
    collect();
    while (!find(call).finished) {
      if (!sleep(deadline))
        throw Error(ErrorKind::kTimeout, "the deadline passed: the server has not answered", address_);
      collect();
    }
    const Pending finished = find(call);
    calls_.erase(call);
    if (finished.answer.bytes > finished.reply.size())
      throw Error(ErrorKind::kDamaged,
                  fmt::format("a reply of {} bytes where at most {} were expected", finished.answer.bytes,
                              finished.reply.size()),
                  address_);
    return finished.answer;
  }

  void pause(const Deadline& deadline) override {
    collect();
    if (!news_ && under_way_ > 0) {
      sleep(deadline);
      collect();
    }
    news_ = false;
  }

 private:
  struct Pending {
    std::span<std::byte> reply;
    bool finished = false;
    Reply answer{};  // once it is finished
  };

  struct Arrived {
    std::uint64_t call;
    Reply reply;
    std::vector<std::byte> body;
  };

  Pending& find(Call call) {
    const auto found = calls_.find(call);
    MUSTER_CHECK(found != calls_.end(), "no such call");
    return found->second;
  }

  // The reader's thread; the writer's is inside it, so that the stream is finished after both.
  void run() {
    std::thread writer([this] {
      wire::Frame frame;
      while (out_.take(frame) && stream_->Write(frame)) {
      }
    });
    stream_->WaitForInitialMetadata();
    if (context_.GetServerInitialMetadata().contains(kReadyKey)) {
      const MutexLock lock(mutex_);
      accepted_ = true;
      changed_.notify_one();
    }
    const std::string damage = read();
    if (!damage.empty()) context_.TryCancel();
    out_.close();
    writer.join();
    const grpc::Status status = stream_->Finish();
    const MutexLock lock(mutex_);
    ended_ = true;
    status_ = status;
    reason_ = damage.empty() ? status.error_message() : damage;
    changed_.notify_one();
  }

  // Until the stream ends. What was wrong with it, if something was.
  std::string read() {
    WireJoiner joiner(WireJoiner::Side::kReplies, limits_.most_body);
    wire::Frame frame;
    try {
      while (stream_->Read(&frame)) {
        std::optional<Framed> message = joiner.add(frame);
        if (!message) continue;
        Arrived arrived{message->call, decode_reply(message->head.view()), std::move(message->body)};
        const MutexLock lock(mutex_);
        arrived_.push_back(std::move(arrived));
        changed_.notify_one();
      }
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

  void stop() {
    context_.TryCancel();
    out_.close();
    reader_.join();
  }

  void wait_until_accepted(const Deadline& deadline) {
    const MutexLock lock(mutex_);
    while (!accepted_ && !ended_ && !deadline.passed())
      changed_.wait_for(mutex_, left(deadline));
    if (accepted_) return;
    if (!ended_) throw Error(ErrorKind::kTimeout, "the deadline passed: the server has not answered", address_);
    if (status_.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
        status_.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
        status_.error_code() == grpc::StatusCode::INVALID_ARGUMENT)
      throw Error(ErrorKind::kInvalidInput, "the server refused the connection: " + reason_, address_);
    throw Error(ErrorKind::kPeerLost, "the server ended the connection: " + reason_, address_);
  }

  // Puts replies where they belong.
  void collect() {
    std::deque<Arrived> arrived;
    {
      const MutexLock lock(mutex_);
      arrived.swap(arrived_);
    }
    for (const Arrived& message : arrived) {
      const auto found = calls_.find(message.call);
      if (found == calls_.end() || found->second.finished) continue;
      Pending& pending = found->second;
      pending.answer = message.reply;
      pending.answer.bytes = message.body.size();
      pending.finished = true;
      if (pending.answer.status == Status::kRefused)
        pending.answer.bytes = std::min<std::uint64_t>(pending.answer.bytes, pending.reply.size());
      if (pending.answer.bytes <= pending.reply.size())
        comm::copy_bytes(pending.reply.data(), message.body.data(), pending.answer.bytes);
      --under_way_;
      news_ = true;
    }
  }

  // Until something arrives; false at the deadline. Throws kPeerLost when nothing will.
  bool sleep(const Deadline& deadline) {
    const MutexLock lock(mutex_);
    while (arrived_.empty() && !ended_ && !deadline.passed())
      changed_.wait_for(mutex_, left(deadline));
    if (!arrived_.empty()) return true;
    if (ended_) throw_lost();
    return false;
  }

  void throw_if_ended() {
    const MutexLock lock(mutex_);
    if (ended_ && arrived_.empty()) throw_lost();
  }
  [[noreturn]] void throw_lost() const MUSTER_REQUIRES(mutex_) {
    throw Error(ErrorKind::kPeerLost, fmt::format("the connection ended{}{}", reason_.empty() ? "" : ": ", reason_),
                address_);
  }

  const std::string address_;
  const TransportLimits limits_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<wire::Frame, wire::Frame>> stream_;
  Outbox out_;
  std::thread reader_;

  // The Connection's own thread.
  Call next_ = 1;
  int under_way_ = 0;
  std::map<Call, Pending> calls_;  // under way, or finished and not waited for yet
  bool news_ = false;              // calls were finished that nobody asked for: pause() need not wait

  Mutex mutex_;
  Condition changed_;
  std::deque<Arrived> arrived_ MUSTER_GUARDED_BY(mutex_);
  bool accepted_ MUSTER_GUARDED_BY(mutex_) = false;
  bool ended_ MUSTER_GUARDED_BY(mutex_) = false;
  grpc::Status status_ MUSTER_GUARDED_BY(mutex_);
  std::string reason_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Connection> connect_grpc(const std::string& address, const std::string& token, std::uint32_t client,
                                         const TransportLimits& limits, const Deadline& deadline,
                                         const GrpcReach& reach) {
  require_place(address, reach.other_hosts);
  return std::make_unique<GrpcConnection>(address, token, client, limits, deadline, reach.trust);
}

}  // namespace muster::strategies
