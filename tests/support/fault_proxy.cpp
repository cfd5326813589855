// One thread moves bytes between pairs of sockets by poll, and delays, cuts or holds them as the test has told it under
// the mutex.
#include "support/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>
#include <vector>

#include "muster/base/clock.h"

namespace muster::testing {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

FaultProxy::FaultProxy(std::uint16_t port)
    : port_(port),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), 16) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("the proxy cannot listen");
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  thread_ = std::thread([this] { run(); });
}

FaultProxy::~FaultProxy() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void FaultProxy::cut() {
  const MutexLock lock(mutex_);
  for (Pair& pair : pairs_)
    pair.broken = true;
  wake();
}

void FaultProxy::swallow(Direction direction) {
  const MutexLock lock(mutex_);
  for (Pair& pair : pairs_)
    pair.ways[static_cast<int>(direction)].swallowed = true;
}

void FaultProxy::flip(Direction direction) {
  const MutexLock lock(mutex_);
  for (Pair& pair : pairs_)
    pair.ways[static_cast<int>(direction)].flipped = true;
}

void FaultProxy::delay(std::chrono::milliseconds duration) {
  const MutexLock lock(mutex_);
  delay_ = duration;
}

void FaultProxy::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void FaultProxy::accept_one() {
  FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.valid()) return;
  FileDescriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port_);
  if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
  Pair& pair = pairs_.emplace_back();
  pair.client = std::move(client);
  pair.server = std::move(server);
  pair.ways[0] = {&pair.client, &pair.server};
  pair.ways[1] = {&pair.server, &pair.client};
}

// What is there, as far as it can be written.
void FaultProxy::move_bytes(Way& way, bool& broken) {
  if (way.waiting.empty()) {
    std::array<char, 65536> buffer;
    const ssize_t got = ::recv(way.from->get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) broken = true;
    if (got <= 0 || way.swallowed) return;
    way.waiting.assign(buffer.data(), static_cast<std::size_t>(got));
    // In the middle, so that it meets every part of a frame sooner or later.
    if (std::exchange(way.flipped, false)) way.waiting[way.waiting.size() / 2] ^= 0x10;
  }
  const ssize_t sent = ::send(way.to->get(), way.waiting.data(), way.waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) way.waiting.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && errno != EAGAIN && errno != EINTR) broken = true;
}

void FaultProxy::run() {
  for (;;) {
    std::vector<pollfd> events{{listener_.get(), POLLIN, 0}, {bell_.get(), POLLIN, 0}};
    std::vector<std::pair<Way*, bool*>> ways;
    {
      const MutexLock lock(mutex_);
      if (stop_) return;
      pairs_.remove_if([](const Pair& pair) { return pair.broken; });
      for (Pair& pair : pairs_) {
        for (Way& way : pair.ways) {
          const bool writing = !way.waiting.empty();
          events.push_back({(writing ? way.to : way.from)->get(), static_cast<short>(writing ? POLLOUT : POLLIN), 0});
          ways.emplace_back(&way, &pair.broken);
        }
      }
    }
    ::poll(events.data(), events.size(), 1000);
    std::uint64_t ignored = 0;
    if (events[1].revents != 0) (void)!::read(bell_.get(), &ignored, sizeof ignored);
    std::chrono::milliseconds delay{0};
    {
      const MutexLock lock(mutex_);
      delay = delay_;
    }
    if (delay.count() > 0) system_clock().sleep_for(delay);  // sleeps: a link that is slow
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (events[i + 2].revents != 0 && !*ways[i].second) move_bytes(*ways[i].first, *ways[i].second);
    if (events[0].revents != 0) accept_one();
  }
}

}  // namespace muster::testing
