// Connects, asks the kernel who listens, and only then hands the descriptor on. An abstract name and a path differ only
// in how the address is written.
#include "muster/control/local_connection.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::control {
namespace {

constexpr std::string_view kAbstract = "unix-abstract:";
constexpr std::string_view kPath = "unix:";

struct Place {
  sockaddr_un name{};
  socklen_t length = 0;
};

Place place_of(const std::string& address, std::string_view who) {
  const bool abstract = address.starts_with(kAbstract);
  const std::string_view name =
      std::string_view(address).substr(std::min(abstract ? kAbstract.size() : kPath.size(), address.size()));
  Place place;
  if (!is_local(address) || name.size() + 1 > sizeof place.name.sun_path)
    throw Error(ErrorKind::kDamaged, fmt::format("\"{}\" is no address of a {}", excerpt(address, 80), who));
  place.name.sun_family = AF_UNIX;
  // An abstract name begins with a zero byte and is as long as the length says; a path ends with one.
  name.copy(place.name.sun_path + (abstract ? 1 : 0), name.size());
  place.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return place;
}

}  // namespace

bool is_local(std::string_view address) {
  return std::ranges::any_of(std::array{kAbstract, kPath}, [&](std::string_view scheme) {
    return address.starts_with(scheme) && address.size() > scheme.size();
  });
}

FileDescriptor connect_local(const std::string& address, uid_t owner, std::string_view who, const Deadline& deadline) {
  const Place place = place_of(address, who);
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) throw_system_error("no socket for", address);
  // For a Unix socket this also bounds the time that connect may wait for a listener that is too busy.
  const auto left = std::max<std::int64_t>(1000, deadline.remaining().count() / 1000);
  const timeval limit{static_cast<time_t>(left / 1'000'000), static_cast<suseconds_t>(left % 1'000'000)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place.name), place.length) != 0)
    throw Error(ErrorKind::kPeerLost, fmt::format("the {} cannot be reached", who), address, "Try again.");
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != owner)
    throw Error(ErrorKind::kPeerLost, fmt::format("process {} of user {} listens where the {} of user {} should",
                                                  peer.pid, peer.uid, who, owner));
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return socket;
}

}  // namespace muster::control
