// A loop around accept that asks the kernel for the other end's user before anything is read;
// an eventfd ends it.
#include "muster/control/local_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/clock.h"

namespace muster::control {
namespace {

constexpr int kBacklog = 64;
constexpr std::chrono::milliseconds kPause{50};

}  // namespace

LocalListener::LocalListener(const std::string& name, Callbacks callbacks) : callbacks_(std::move(callbacks)) {
  sockaddr_un place{};
  static_assert(kLongestName + 1 <= sizeof place.sun_path);
  MUSTER_CHECK(name.size() <= kLongestName, "a name that is too long for a socket");
  place.sun_family = AF_UNIX;
  name.copy(place.sun_path + 1, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  stop_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  if (!socket_.valid() || !stop_.valid()) throw_system_error("cannot listen for commands", name);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&place), length) != 0 ||
      ::listen(socket_.get(), kBacklog) != 0)
    throw_system_error("cannot listen for commands", name);
  thread_ = std::thread([this] { run(); });
}

LocalListener::~LocalListener() {
  const std::uint64_t one = 1;
  const ssize_t written = ::write(stop_.get(), &one, sizeof one);
  MUSTER_CHECK(written == sizeof one, "an eventfd that takes no number");
  thread_.join();
}

void LocalListener::run() {
  while (true) {
    pollfd waits[2] = {{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    ::poll(waits, 2, -1);  // the destructor ends it
    if (waits[1].revents != 0) return;
    if (waits[0].revents == 0) continue;
    FileDescriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      // Gone again, or no descriptor is left: that may pass, and must not burn a core meanwhile.
      system_clock().sleep_for(kPause);
      continue;
    }
    ucred peer{};
    socklen_t length = sizeof peer;
    const bool known = ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
    if (known && (peer.uid == ::geteuid() || peer.uid == 0))
      callbacks_.connected(std::move(connection));
    else
      callbacks_.refused(peer.uid);
  }
}

}  // namespace muster::control
