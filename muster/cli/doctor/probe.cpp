// The caller says the word, then: pings of a byte, each answered by one; a question for the time, answered by 8 bytes;
// then both sides send for a quarter of a second what they can, and count what they get. Every step has a time limit of
// the socket's own.
#include "muster/cli/doctor/probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/control/access_token.h"

namespace muster::cli {
namespace {

constexpr int kPings = 50;
constexpr char kPing = 'p';
constexpr char kAskTime = 't';
constexpr char kFlood = 'f';
constexpr std::chrono::milliseconds kFloodTime{250};
constexpr int kProbeLimitSeconds = 5;
constexpr int kMostCallers = 16;
constexpr std::size_t kFloodPiece = std::size_t{128} << 10;

struct AddressesDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

Addresses look_up(const std::string& host, const std::string& port, bool to_listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) throw Error(ErrorKind::kIo, fmt::format("the name leads nowhere: {}", ::gai_strerror(code)), host);
  return Addresses(found);
}

std::pair<std::string, std::string> split_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) throw Error(ErrorKind::kInvalidInput, "is no HOST:PORT", address);
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

std::string host_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = {};
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

void set_limits(int socket) {
  const timeval limit{.tv_sec = kProbeLimitSeconds, .tv_usec = 0};
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void send_bytes(int socket, const void* bytes, std::size_t size) {
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t done = ::send(socket, static_cast<const char*>(bytes) + sent, size - sent, MSG_NOSIGNAL);
    if (done <= 0) throw Error(ErrorKind::kIo, fmt::format("sending: {}", std::strerror(errno)));
    sent += static_cast<std::size_t>(done);
  }
}

void receive_bytes(int socket, void* bytes, std::size_t size) {
  for (std::size_t got = 0; got < size;) {
    const ssize_t done = ::recv(socket, static_cast<char*>(bytes) + got, size - got, 0);
    if (done == 0) throw Error(ErrorKind::kIo, "the other side has hung up");
    if (done < 0) throw Error(ErrorKind::kIo, fmt::format("receiving: {}", std::strerror(errno)));
    got += static_cast<std::size_t>(done);
  }
}

// Sends for a while and closes that direction; receives until the other has. Bytes received in a second.
double flood(int socket) {
  std::thread sender([socket] {
    const std::vector<char> piece(kFloodPiece, 'x');
    const Deadline deadline = Deadline::after(kFloodTime);
    while (!deadline.passed() && ::send(socket, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
    }
    ::shutdown(socket, SHUT_WR);
  });
  std::vector<char> piece(kFloodPiece);
  std::uint64_t bytes = 0;
  const Clock::Instant began = system_clock().now();
  Clock::Instant last = began;
  for (ssize_t got = 0; (got = ::recv(socket, piece.data(), piece.size(), 0)) > 0; last = system_clock().now())
    bytes += static_cast<std::uint64_t>(got);
  sender.join();
  const double seconds = std::chrono::duration<double>(last - began).count();
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock().wall().time_since_epoch()).count();
}

void answer(int socket, const std::string& word) {
  set_limits(socket);
  std::string shown(word.size(), '\0');
  receive_bytes(socket, shown.data(), shown.size());
  if (!control::same_token(shown, word)) return;
  for (char verb = 0;;) {
    receive_bytes(socket, &verb, 1);
    if (verb == kPing) {
      send_bytes(socket, &verb, 1);
    } else if (verb == kAskTime) {
      const std::int64_t now = wall_ns();
      send_bytes(socket, &now, sizeof now);
    } else {
      if (verb == kFlood) flood(socket);
      return;
    }
  }
}

FileDescriptor connect_to(const std::string& address) {
  const auto [host, port] = split_address(address);
  const Addresses found = look_up(host, port, false);
  FileDescriptor made(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_limits(made.get());
  if (::connect(made.get(), found->ai_addr, found->ai_addrlen) != 0)
    throw Error(ErrorKind::kIo, errno == EINPROGRESS || errno == EAGAIN
                                    ? fmt::format("no answer in {} s", kProbeLimitSeconds)
                                    : std::strerror(errno));
  return made;
}

}  // namespace

ProbeServer::ProbeServer(const std::string& address, std::uint16_t port, std::string word) : word_(std::move(word)) {
  const Addresses found = look_up(address, std::to_string(port), true);
  socket_ = FileDescriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::bind(socket_.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket_.get(), 16) != 0 ||
      ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    throw Error(ErrorKind::kIo, fmt::format("cannot be listened on: {}", std::strerror(errno)), address);
  const int chosen = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                       : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  const std::string host = host_of(bound, size);
  address_ = bound.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, chosen) : fmt::format("{}:{}", host, chosen);
  thread_ = std::thread([this] { serve(); });
}

ProbeServer::~ProbeServer() {
  ends_ = true;
  thread_.join();
}

void ProbeServer::serve() {
  std::list<std::jthread> answering;
  while (!ends_) {
    if (callers_ == 0) answering.clear();
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (callers_ >= kMostCallers || ::poll(&waiting, 1, 100) <= 0) {
      if (callers_ >= kMostCallers) system_clock().sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    FileDescriptor caller(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller.valid()) continue;
    ++callers_;
    answering.emplace_back([this, caller = std::move(caller)] {
      try {
        answer(caller.get(), word_);
      } catch (const Error&) {
        // Who calls says what went wrong.
      }
      --callers_;
    });
  }
}

LinkFigures probe_link(const std::string& address, const std::string& word) {
  LinkFigures figures;
  try {
    const FileDescriptor socket = connect_to(address);
    send_bytes(socket.get(), word.data(), word.size());
    std::vector<double> times;
    for (int i = 0; i < kPings; ++i) {
      const Clock::Instant sent = system_clock().now();
      char byte = kPing;
      send_bytes(socket.get(), &byte, 1);
      receive_bytes(socket.get(), &byte, 1);
      times.push_back(std::chrono::duration<double, std::micro>(system_clock().now() - sent).count());
    }
    std::nth_element(times.begin(), times.begin() + kPings / 2, times.end());
    figures.latency_us = times[kPings / 2];
    const std::int64_t before = wall_ns();
    send_bytes(socket.get(), &kAskTime, 1);
    std::int64_t theirs = 0;
    receive_bytes(socket.get(), &theirs, sizeof theirs);
    const std::int64_t after = wall_ns();
    figures.clock_ahead_ms = static_cast<double>(theirs - (before + (after - before) / 2)) / 1e6;
    send_bytes(socket.get(), &kFlood, 1);
    figures.megabits = flood(socket.get()) * 8 / 1e6;
  } catch (const Error& error) {
    figures.failure = error.message();
  }
  return figures;
}

std::string address_towards(const std::string& address) {
  const auto [host, port] = split_address(address);
  const Addresses found = look_up(host, port, false);
  const FileDescriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  // A datagram socket sends nothing by this: the kernel only chooses the way.
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw Error(ErrorKind::kIo, fmt::format("there is no way: {}", std::strerror(errno)), address);
  return host_of(own, size);
}

}  // namespace muster::cli
