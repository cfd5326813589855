// The server's end. Each stream has a thread that reads it (gRPC's) and one that writes it; both meet the thread of the
// Inbox at queues only, which hold at most `window` messages a client. So a client that does not read, or reads slowly,
// holds up nobody but itself.
#include <grpcpp/server_posix.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/check.h"
#include "muster/base/log.h"
#include "muster/comm/region.h"
#include "muster/control/access_token.h"
#include "muster/control/audit.h"
#include "muster/control/credentials.h"
#include "muster/control/grpc_service.h"
#include "muster/control/local_listener.h"
#include "muster/control/tcp_gate.h"
#include "muster/strategies/parameter_server/grpc_transport.h"
#include "muster/strategies/parameter_server/grpc_wire.h"

namespace muster::strategies {
namespace {

constexpr int kMostMetadataBytes = 4 * 1024;
constexpr int kHandshakeMilliseconds = 5'000;
constexpr int kIdleMilliseconds = 10'000;  // of a connection without a stream
// Of the numbers that clients may have only so many are there at a time: members of a group, and servers.
constexpr int kMostLines = 128;
constexpr std::chrono::hours kLongestWait{1};
constexpr std::string_view kAbstract = "unix-abstract:";
constexpr std::string_view kPath = "unix:";

// A client's stream, as long as somebody has a call of it.
class Line {
 public:
  Line(std::uint32_t client, grpc::ServerContext& context) : client_(client), context_(&context) {}

  std::uint32_t client() const { return client_; }
  bool ended() const { return ended_.load(); }
  Outbox& out() { return out_; }
  // Of calls that were read and not answered yet.
  std::atomic<int>& under_way() { return under_way_; }

  // From any thread: nothing comes in or goes out any more, at once; its own thread notices the broken stream later.
  void cancel() {
    const MutexLock lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
    close();
  }
  // By the thread that reads it.
  void end() {
    const MutexLock lock(mutex_);
    context_ = nullptr;
    close();
  }

 private:
  void close() {
    ended_.store(true);
    out_.close();
  }

  const std::uint32_t client_;
  Outbox out_;
  std::atomic<bool> ended_{false};
  std::atomic<int> under_way_{0};
  Mutex mutex_;
  grpc::ServerContext* context_ MUSTER_GUARDED_BY(mutex_);
};

struct Arrived {
  std::shared_ptr<Line> line;
  std::uint64_t call;
  Request request;
  std::vector<std::byte> body;
};

class Service final : public wire::ParameterServer::Service {
 public:
  // `authorize` may be empty: the token is enough then.
  Service(const TransportLimits& limits, std::string token, control::AuthorizeCall authorize)
      : limits_(limits), token_(std::move(token)), authorize_(std::move(authorize)) {}

  grpc::Status Calls(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<wire::Frame, wire::Frame>* stream) override {
    if (authorize_) {
      if (grpc::Status status = authorize_(*context, "Calls"); !status.ok()) return status;
    }
    if (!control::same_token(metadata(*context, kTokenKey), token_))
      return {grpc::StatusCode::UNAUTHENTICATED, "the token is not the server's"};
    const std::string number = metadata(*context, kClientKey);
    std::uint32_t client = 0;
    const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), client);
    if (failure != std::errc() || end != number.data() + number.size() ||
        client >= static_cast<std::uint32_t>(limits_.clients))
      return {grpc::StatusCode::INVALID_ARGUMENT, fmt::format("the server has {} clients", limits_.clients)};
    const auto line = std::make_shared<Line>(client, *context);
    enter(line);
    context->AddInitialMetadata(kReadyKey, "1");
    stream->SendInitialMetadata();
    std::thread writer([&] {
      wire::Frame frame;
      while (line->out().take(frame) && stream->Write(frame)) {
      }
    });
    const grpc::Status status = read(*stream, line);
    // Else the writer could wait for a client that does not read.
    if (!status.ok()) context->TryCancel();
    line->end();
    writer.join();
    return status;
  }

  std::optional<Arrived> next(const Deadline& deadline) {
    const MutexLock lock(mutex_);
    for (;;) {
      while (!arrived_.empty()) {
        Arrived arrived = std::move(arrived_.front());
        arrived_.pop_front();
        if (!arrived.line->ended()) return arrived;
      }
      if (std::exchange(woken_, false) || deadline.passed()) return std::nullopt;
      changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(deadline.remaining(), kLongestWait));
    }
  }

  void wake() {
    const MutexLock lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }

 private:
  static std::string metadata(const grpc::ServerContext& context, const char* key) {
    const auto [begin, end] = context.client_metadata().equal_range(key);
    if (begin == end || std::next(begin) != end) return {};
    return {begin->second.data(), begin->second.size()};
  }

  void enter(const std::shared_ptr<Line>& line) {
    const MutexLock lock(mutex_);
    std::erase_if(lines_, [](const auto& known) { return known.second->ended(); });
    const std::shared_ptr<Line> before = std::exchange(lines_[line->client()], line);
    if (before) before->cancel();
  }

  grpc::Status read(grpc::ServerReaderWriter<wire::Frame, wire::Frame>& stream, const std::shared_ptr<Line>& line) {
    WireJoiner joiner(WireJoiner::Side::kRequests, limits_.most_body);
    wire::Frame frame;
    std::uint64_t calls = 0;
    try {
      while (stream.Read(&frame)) {
        std::optional<Framed> message = joiner.add(frame);
        if (!message) continue;
        if (message->call != ++calls)
          throw Error(ErrorKind::kDamaged, fmt::format("call {} where call {} was due", message->call, calls));
        if (++line->under_way() > limits_.window)
          return {grpc::StatusCode::RESOURCE_EXHAUSTED, fmt::format("more than {} calls under way", limits_.window)};
        Arrived arrived{line, message->call, decode_request(message->head.view()), std::move(message->body)};
        arrived.request.client = line->client();
        const MutexLock lock(mutex_);
        arrived_.push_back(std::move(arrived));
        changed_.notify_one();
      }
    } catch (const Error& error) {
      return {grpc::StatusCode::INVALID_ARGUMENT, error.message()};
    } catch (const std::exception& error) {
      return {grpc::StatusCode::INTERNAL, error.what()};  // out of memory
    }
    return grpc::Status::OK;
  }

  const TransportLimits limits_;
  const std::string token_;
  const control::AuthorizeCall authorize_;
  Mutex mutex_;
  Condition changed_;
  std::map<std::uint32_t, std::shared_ptr<Line>> lines_ MUSTER_GUARDED_BY(mutex_);  // the last of each client
  std::deque<Arrived> arrived_ MUSTER_GUARDED_BY(mutex_);
  bool woken_ MUSTER_GUARDED_BY(mutex_) = false;
};

class GrpcInbox final : public Inbox {
 public:
  GrpcInbox(const TransportLimits& limits, std::size_t memory_bytes, const std::string& listen, std::string token,
            const control::TrustOptions& trust)
      : limits_(limits),
        trust_(trust.any() ? std::optional(control::make_server_trust(trust, audit_)) : std::nullopt),
        service_(limits, std::move(token), trust_ ? trust_->authorize : control::AuthorizeCall()) {
    if (memory_bytes > 0) region_ = comm::SharedRegion::create(memory_bytes, {.shared = false});
    grpc::ServerBuilder builder;
    // A client that comes back may meet its old stream.
    const int threads = 2 * std::min(limits.clients, kMostLines) + 4;
    control::limit_server(builder, {threads, kMostFrame, kMostFrame, kMostMetadataBytes});
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttpFrame);
    // Else a second server could listen on the same port and take half of the clients.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    const bool abstract = listen.starts_with(kAbstract);
    int port = 0;
    if (trust_)
      gate_.emplace(builder, listen, *trust_, audit_);
    else if (!abstract)
      builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (!server_)
      throw Error(ErrorKind::kIo, fmt::format("cannot listen on {}", listen), kGrpcPlace,
                  "Something else may listen there: take another place, or port 0 for any free one.");
    if (gate_) {
      gate_->open();
      address_ = gate_->address();
      return;
    }
    // Any user can connect to an abstract name, and to a file that all may write.
    if (abstract)
      listener_.emplace(listen.substr(kAbstract.size()),
                        control::LocalListener::Callbacks{[server = server_.get()](FileDescriptor connection) {
                                                            grpc::AddInsecureChannelFromFd(server,
                                                                                           connection.release());
                                                          },
                                                          [](uid_t) {}});
    else if (listen.starts_with(kPath))
      ::chmod(listen.c_str() + kPath.size(), S_IRUSR | S_IWUSR);
    address_ = listen.starts_with("unix") ? listen : listen.substr(0, listen.rfind(':') + 1) + std::to_string(port);
  }

  ~GrpcInbox() override {
    listener_.reset();
    gate_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  const std::string& address() const override { return address_; }
  std::span<std::byte> memory() override { return region_ ? region_->bytes() : std::span<std::byte>(); }
  void wake() override { service_.wake(); }

  std::optional<Incoming> next(const Deadline& deadline) override {
    std::optional<Arrived> arrived = service_.next(deadline);
    if (!arrived) return std::nullopt;
    const std::uint64_t handle = next_handle_++;
    const Arrived& kept = taken_.emplace(handle, std::move(*arrived)).first->second;
    return Incoming{handle, kept.request, kept.body};
  }

  void reply(std::uint64_t handle, const Reply& reply, std::span<const std::byte> body) override {
    MUSTER_CHECK(body.size() <= limits_.most_body, "a reply has at most most_body bytes");
    const auto found = taken_.find(handle);
    MUSTER_CHECK(found != taken_.end(), "a call is answered once");
    Line& line = *found->second.line;
    // Before the answer can be seen: who has it may make another call at once.
    --line.under_way();
    if (!line.ended()) line.out().put(found->second.call, reply, body);
    taken_.erase(found);
  }

  void reply_in_place(std::uint64_t handle, const Reply& answer, std::span<const std::byte> body,
                      const std::atomic<std::uint64_t>& guard, std::uint64_t limit) override {
    // Copied here and now, by the thread that would change it: the guard can only have been raised before.
    if (guard.load() < limit) return reply(handle, answer, body);
    Reply wait = answer;
    wait.status = Status::kWait;
    reply(handle, wait, {});
  }

 private:
  const TransportLimits limits_;
  Log log_{LogLevel::kWarning};
  control::Audit audit_{log_};
  const std::optional<control::ServerTrust> trust_;
  std::optional<comm::SharedRegion> region_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<control::LocalListener> listener_;  // on an abstract name; ended before the server
  std::optional<control::TcpGate> gate_;            // of a port with trust; the same
  std::string address_;
  std::map<std::uint64_t, Arrived> taken_;  // calls that were given out and not answered yet
  std::uint64_t next_handle_ = 1;
};

}  // namespace

std::unique_ptr<Inbox> make_grpc_inbox(const TransportLimits& limits, std::size_t memory_bytes,
                                       const std::string& listen, const std::string& token, const GrpcReach& reach) {
  require_place(listen, reach.other_hosts);
  if (reach.trust.any() && control::is_local(listen))
    throw Error(ErrorKind::kInvalidInput, "certificates are for ports, not for Unix sockets", kGrpcPlace);
  if (limits.clients < 1 || limits.window < 1)
    throw Error(ErrorKind::kInvalidInput, "a server has at least one client with one call", kGrpcPlace);
  if (listen.starts_with(kAbstract) && listen.size() - kAbstract.size() > control::LocalListener::kLongestName)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("a name has at most {} bytes: \"{}\"", control::LocalListener::kLongestName, listen),
                kGrpcPlace);
  if (token.empty()) throw Error(ErrorKind::kInvalidInput, "a server without a token", kGrpcPlace);
  return std::make_unique<GrpcInbox>(limits, memory_bytes, listen, token, reach.trust);
}

}  // namespace muster::strategies
