// A loop around poll. What a connection has sent is peeked at; the kernel wakes the loop when as much is there as is
// still missing (SO_RCVLOWAT), so that somebody who sends byte by byte costs a look at the end.
#include "muster/control/tcp_gate.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/control/arrivals.h"
#include "muster/control/tls_greeting.h"

namespace muster::control {
namespace {

constexpr int kGateBacklog = 512;
constexpr std::chrono::milliseconds kLongestLook{100};
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{20};

struct SocketPlace {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
};

SocketPlace socket_place(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  std::string host = address.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  SocketPlace place;
  auto* const four = reinterpret_cast<sockaddr_in*>(&place.name);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&place.name);
  const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos &&
                      std::stoi(port) <= 65535;
  if (number && ::inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    place.length = sizeof *four;
  } else if (number && ::inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    place.length = sizeof *six;
  } else {
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no address with a port", excerpt(address, 80)), {},
                "Give numbers, as 10.0.0.1:7400 or [fd00::1]:7400.");
  }
  return place;
}

// As gRPC writes it (ServerContext::peer()).
std::string peer_text(const sockaddr_storage& name) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (name.ss_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&name);
    ::inet_ntop(AF_INET, &four->sin_addr, text.data(), text.size());
    return fmt::format("ipv4:{}:{}", text.data(), ntohs(four->sin_port));
  }
  const auto* const six = reinterpret_cast<const sockaddr_in6*>(&name);
  if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
    ::inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, text.data(), text.size());
    return fmt::format("ipv4:{}:{}", text.data(), ntohs(six->sin6_port));
  }
  ::inet_ntop(AF_INET6, &six->sin6_addr, text.data(), text.size());
  return fmt::format("ipv6:%5B{}%5D:{}", text.data(), ntohs(six->sin6_port));
}

void wake_at(int socket, std::size_t bytes) {
  const int value = static_cast<int>(bytes);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value);
}

struct Waiting {
  FileDescriptor connection;
  std::string peer;
  Clock::Instant until;
};

}  // namespace

struct TcpGate::Parts {
  Parts(Audit& its_audit, const TcpGateLimits& its_limits) : audit(its_audit), limits(its_limits) {}

  Audit& audit;
  const TcpGateLimits limits;
  std::string address;
  FileDescriptor socket;
  FileDescriptor stop;  // an eventfd
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::shared_ptr<Arrivals> arrivals;
  std::thread thread;
  std::deque<Waiting> waiting;  // who came first stands first; of the thread alone

  void run();
  void accept_all(Clock::Instant now);
  // Whether it is done with: let in or closed.
  bool look_at(Waiting& one);
  void close(const Waiting& one, std::string_view reason) const {
    audit.refused({.who = {}, .what = {}, .from = one.peer}, reason);
  }
};

TcpGate::TcpGate(grpc::ServerBuilder& builder, const std::string& address, const ServerTrust& trust, Audit& audit,
                 const TcpGateLimits& limits)
    : parts_(std::make_unique<Parts>(audit, limits)) {
  SocketPlace place = socket_place(address);
  Parts& parts = *parts_;
  parts.socket = FileDescriptor(::socket(place.name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  parts.stop = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  if (!parts.socket.valid() || !parts.stop.valid()) throw_system_error("cannot listen", address);
  const int on = 1;
  // A port whose last owner has died is taken at once; one that somebody listens on is not.
  ::setsockopt(parts.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(parts.socket.get(), reinterpret_cast<const sockaddr*>(&place.name), place.length) != 0 ||
      ::listen(parts.socket.get(), kGateBacklog) != 0)
    throw Error(ErrorKind::kIo, fmt::format("cannot listen: {}", std::strerror(errno)), address,
                "Is it an address of this machine, and is the port free?");
  ::getsockname(parts.socket.get(), reinterpret_cast<sockaddr*>(&place.name), &place.length);
  const std::uint16_t port = place.name.ss_family == AF_INET
                                 ? reinterpret_cast<const sockaddr_in*>(&place.name)->sin_port
                                 : reinterpret_cast<const sockaddr_in6*>(&place.name)->sin6_port;
  parts.address = fmt::format("{}:{}", address.substr(0, address.rfind(':')), ntohs(port));
  parts.arrivals = trust.arrivals;
  parts.acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, trust.credentials);
}

TcpGate::~TcpGate() {
  if (!parts_->thread.joinable()) return;
  const std::uint64_t one = 1;
  const ssize_t written = ::write(parts_->stop.get(), &one, sizeof one);
  MUSTER_CHECK(written == sizeof one, "an eventfd that takes no number");
  parts_->thread.join();
}

void TcpGate::open() {
  MUSTER_CHECK(!parts_->thread.joinable(), "a gate is opened once");
  parts_->thread = std::thread([parts = parts_.get()] { parts->run(); });
}

const std::string& TcpGate::address() const {
  return parts_->address;
}

void TcpGate::Parts::run() {
  while (true) {
    std::vector<pollfd> looks{{stop.get(), POLLIN, 0}, {socket.get(), POLLIN, 0}};
    for (const Waiting& one : waiting)
      looks.push_back({one.connection.get(), POLLIN | POLLRDHUP, 0});
    ::poll(looks.data(), looks.size(), static_cast<int>(kLongestLook.count()));
    if (looks[0].revents != 0) return;
    const Clock::Instant now = system_clock().now();
    std::size_t index = 2;
    std::erase_if(waiting, [&](Waiting& one) {
      const short happened = looks[index++].revents;
      if (happened != 0 && look_at(one)) return true;
      if (now < one.until) return false;
      close(one, "no greeting of TLS came in time");
      return true;
    });
    if (looks[1].revents != 0) accept_all(now);
    for (const std::string& peer : arrivals->silent_since(now - limits.first_call))
      audit.refused({.who = {}, .what = {}, .from = peer}, "after its greeting no call came: its handshake failed");
  }
}

void TcpGate::Parts::accept_all(Clock::Instant now) {
  for (int i = 0; i < kGateBacklog; ++i) {
    SocketPlace peer;
    FileDescriptor connection(
        ::accept4(socket.get(), reinterpret_cast<sockaddr*>(&peer.name), &peer.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      if (errno == EAGAIN || errno == ECONNABORTED) return;
      // No descriptor is left: those that wait for their greeting give way, and the core is not burnt meanwhile.
      if (!waiting.empty()) {
        close(waiting.front(), "no descriptor is left");
        waiting.pop_front();
      }
      system_clock().sleep_for(kPauseWithoutDescriptors);
      return;
    }
    const int on = 1;
    ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    wake_at(connection.get(), TlsGreeting::kFirstBytes);
    Waiting one{std::move(connection), peer_text(peer.name), now + limits.greeting};
    if (look_at(one)) continue;
    if (waiting.size() >= limits.waiting) {
      close(waiting.front(), "too many wait for their greeting");
      waiting.pop_front();
    }
    waiting.push_back(std::move(one));
  }
}

bool TcpGate::Parts::look_at(Waiting& one) {
  std::array<std::byte, TlsGreeting::kMostBytes> bytes;
  const ssize_t got = ::recv(one.connection.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    close(one, "it went away without a greeting");
    return true;
  }
  const TlsGreeting greeting = examine_greeting(std::span(bytes).first(static_cast<std::size_t>(got)));
  if (!greeting.refusal.empty()) {
    close(one, greeting.refusal);
    return true;
  }
  if (greeting.missing > 0) {
    // The other side has closed: nothing more will come.
    pollfd hung{one.connection.get(), POLLRDHUP, 0};
    if (::poll(&hung, 1, 0) > 0) {
      close(one, "it went away in the middle of its greeting");
      return true;
    }
    wake_at(one.connection.get(), static_cast<std::size_t>(got) + greeting.missing);
    return false;
  }
  wake_at(one.connection.get(), 1);
  arrivals->came(one.peer, system_clock().now());
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = socket.get();
  parameters.fd = one.connection.release();
  acceptor->HandleNewConnection(&parameters);
  return true;
}

}  // namespace muster::control
