// One thread asks in turns and takes what comes in between. One that was itself stopped for a while has heard nobody in
// it and judges nobody by it.
#include "muster/coordinator/link_calls.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/hash.h"

namespace muster::coordinator {
namespace {

constexpr std::uint64_t kMagic = 0x316b6e696c74736dULL;  // "mstlink1"
constexpr std::chrono::milliseconds kLinkTurn{250};
constexpr int kFreshTurns = 4;  // an answer to one of the last questions is of a moment ago
constexpr int kSleptTurns = 4;  // this thread has not run for so long: it was stopped, or starved
constexpr std::size_t kSealDigits = 16;

struct Datagram {
  std::uint64_t magic = kMagic;
  std::uint64_t kind = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t turn = 0;
  std::uint64_t seal = 0;
};
static_assert(sizeof(Datagram) == 48);
constexpr std::uint64_t kAsks = 1;
constexpr std::uint64_t kAnswers = 2;

std::uint64_t seal_of(const Datagram& datagram, const std::string& job) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(job)));
  hash.update(std::as_bytes(std::span(&datagram, 1)).first(sizeof(Datagram) - sizeof(datagram.seal)));
  return std::stoull(hash.finish().substr(0, kSealDigits), nullptr, 16);
}

struct Addresses {
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list{nullptr, ::freeaddrinfo};
};

// Numbers only: nobody is asked for a name. Empty: it is no address.
Addresses addresses_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  Addresses made;
  made.list.reset(found);
  return made;
}

}  // namespace

LinkCalls::LinkCalls(const std::string& address, std::string job, std::chrono::nanoseconds patience, const Clock& clock)
    : job_(std::move(job)), patience_(patience), clock_(clock), asked_(clock.now()) {
  const Addresses where = addresses_of(address + ":0");
  const auto fail = [&] {
    return Error(ErrorKind::kIo, fmt::format("cannot listen for other hosts: {}", std::strerror(errno)), address);
  };
  if (!where.list) throw Error(ErrorKind::kIo, "is no address of this machine in numbers", address);
  socket_ = FileDescriptor(::socket(where.list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid() || ::bind(socket_.get(), where.list->ai_addr, where.list->ai_addrlen) != 0) throw fail();
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  std::array<char, NI_MAXSERV> port{};
  if (::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&bound), bytes, nullptr, 0, port.data(), port.size(),
                    NI_NUMERICSERV | NI_DGRAM) != 0)
    throw fail();
  address_ = fmt::format("{}:{}", address, port.data());
  wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) throw fail();
  thread_ = std::thread([this] { run(); });
}

LinkCalls::~LinkCalls() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = ::write(wake_.get(), &one, sizeof(one));  // an empty eventfd takes it
  thread_.join();
}

void LinkCalls::set_peers(std::uint64_t self, const std::vector<control::Peer>& peers) {
  const MutexLock lock(mutex_);
  self_ = self;
  std::erase_if(peers_, [&](const auto& known) {
    return std::ranges::none_of(peers, [&](const control::Peer& peer) {
      return peer.host == known.first && peer.address == known.second.address;
    });
  });
  for (const control::Peer& peer : peers)
    if (peer.host != self && !peers_.contains(peer.host)) peers_[peer.host] = {peer.address, clock_.now()};
}

control::HostLinks LinkCalls::links() const {
  const MutexLock lock(mutex_);
  control::HostLinks links{.looks = true};
  const Clock::Instant now = clock_.now();
  for (const auto& [number, peer] : peers_) {
    if (peer.ever && now - peer.answered <= kFreshTurns * kLinkTurn) links.heard.push_back(number);
    // Counted to the last question: what this thread has not asked it cannot have heard.
    if (asked_ - peer.answered > patience_) links.unheard.push_back(number);
  }
  return links;
}

void LinkCalls::ask() {
  const MutexLock lock(mutex_);
  const Clock::Instant now = clock_.now();
  if (now - asked_ > kSleptTurns * kLinkTurn)
    for (auto& [number, peer] : peers_)
      peer.answered = std::max(peer.answered, now - kLinkTurn);
  asked_ = now;
  for (auto& [number, peer] : peers_) {
    Datagram question{.kind = kAsks, .from = self_, .to = number, .turn = ++peer.turn};
    question.seal = seal_of(question, job_);
    const Addresses where = addresses_of(peer.address);
    // What does not leave is not answered: that is all that counts.
    if (where.list)
      static_cast<void>(
          ::sendto(socket_.get(), &question, sizeof(question), 0, where.list->ai_addr, where.list->ai_addrlen));
  }
}

void LinkCalls::take_what_came() {
  constexpr int kMostAtOnce = 1024;  // so that a flood does not keep this thread from asking
  for (int count = 0; count < kMostAtOnce; ++count) {
    Datagram came;
    sockaddr_storage from{};
    socklen_t bytes = sizeof(from);
    // MSG_TRUNC: the true length, so that one that is longer is none.
    const ssize_t length =
        ::recvfrom(socket_.get(), &came, sizeof(came), MSG_TRUNC, reinterpret_cast<sockaddr*>(&from), &bytes);
    if (length < 0) {
      if (errno == EINTR || errno == ECONNREFUSED) continue;
      return;
    }
    if (length != sizeof(came) || came.magic != kMagic || came.seal != seal_of(came, job_)) continue;
    const MutexLock lock(mutex_);
    if (came.to != self_) continue;
    if (came.kind == kAsks) {
      Datagram answer{.kind = kAnswers, .from = came.to, .to = came.from, .turn = came.turn};
      answer.seal = seal_of(answer, job_);
      static_cast<void>(
          ::sendto(socket_.get(), &answer, sizeof(answer), 0, reinterpret_cast<const sockaddr*>(&from), bytes));
      continue;
    }
    const auto peer = peers_.find(came.from);
    if (came.kind != kAnswers || peer == peers_.end() || came.turn > peer->second.turn ||
        peer->second.turn - came.turn >= kFreshTurns)
      continue;
    peer->second.answered = clock_.now();
    peer->second.ever = true;
  }
}

void LinkCalls::run() {
  for (;;) {
    ask();
    const Deadline turn = Deadline::after(kLinkTurn);
    while (!turn.passed()) {
      std::array<pollfd, 2> polled{pollfd{socket_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(turn.remaining());
      if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) > 0) {
        if (polled[1].revents != 0) return;
        take_what_came();
      }
    }
  }
}

}  // namespace muster::coordinator
