// A part of the bytes goes first, so that the connection's window is open when the clock starts. Blocking calls with
// the socket's own time limit: a thread sends while the caller receives.
#include "muster/cli/bench/link_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/launch/namespace_hosts.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kProbeTime{30};
constexpr std::size_t kProbePiece = std::size_t{256} << 10;

[[noreturn]] void throw_broken(const char* what, const std::string& address) {
  throw Error(ErrorKind::kIo, fmt::format("cannot {} over the link: {}", what, std::strerror(errno)), address);
}

sockaddr_in parse_numeric(const std::string& address) {
  sockaddr_in parsed{};
  const std::size_t colon = address.rfind(':');
  parsed.sin_family = AF_INET;
  if (colon == std::string::npos || ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &parsed.sin_addr) != 1)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no numeric address with a port", address));
  parsed.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  return parsed;
}

FileDescriptor make_socket(const std::string& address) {
  FileDescriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = kProbeTime.count(), .tv_usec = 0};
  const int on = 1;
  if (!made.valid() || ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    throw_broken("make a connection", address);
  return made;
}

bool send_all(int socket, std::uint64_t bytes) {
  const std::vector<char> piece(kProbePiece, 'x');
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, piece.data(), std::min<std::uint64_t>(bytes, kProbePiece), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes -= static_cast<std::uint64_t>(sent);
  }
  return true;
}

bool receive_all(int socket, std::uint64_t bytes) {
  std::vector<char> piece(kProbePiece);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, piece.data(), std::min<std::uint64_t>(bytes, kProbePiece), 0);
    if (got <= 0) return false;
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

void exchange_bytes(int socket, std::uint64_t bytes, const std::string& address) {
  bool sent = false;
  std::thread sender([&] { sent = send_all(socket, bytes); });
  const bool received = receive_all(socket, bytes);
  sender.join();
  if (!sent || !received) throw_broken("exchange bytes", address);
}

double timed_exchange(int socket, std::uint64_t bytes, const std::string& address) {
  exchange_bytes(socket, bytes / 4, address);
  exchange_bytes(socket, 1, address);
  const auto start = system_clock().now();
  exchange_bytes(socket, bytes, address);
  return std::chrono::duration<double>(system_clock().now() - start).count();
}

}  // namespace

std::uint64_t probe_bytes(const std::string& link) {
  constexpr double kLeast = 4 << 20;
  constexpr double kMost = 256 << 20;
  return static_cast<std::uint64_t>(link.empty() ? kMost : std::clamp(launch::link_bits(link) / 32, kLeast, kMost));
}

double probe_link_from(const std::string& address, std::uint64_t bytes) {
  const sockaddr_in own = parse_numeric(address);
  const FileDescriptor listener = make_socket(address);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      ::listen(listener.get(), 1) != 0)
    throw_broken("listen", address);
  const FileDescriptor connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) throw_broken("be reached", address);
  return timed_exchange(connection.get(), bytes, address);
}

double probe_link_to(const std::string& address, std::uint64_t bytes) {
  const sockaddr_in other = parse_numeric(address);
  const Deadline deadline = Deadline::after(kProbeTime);
  for (;;) {
    const FileDescriptor connection = make_socket(address);
    if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&other), sizeof other) == 0)
      return timed_exchange(connection.get(), bytes, address);
    // The other end may not listen yet.
    if (errno != ECONNREFUSED || deadline.passed()) throw_broken("connect", address);
    system_clock().sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace muster::cli
