// What the sources of HierarchicalBackend share. Private to them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/comm/hierarchical.h"

namespace muster::comm {

// Tags of our own between ranks.
constexpr std::uint32_t kCallTag = 0xffffff01U;
constexpr std::uint32_t kDataTag = 0xffffff02U;
constexpr std::uint32_t kResultTag = 0xffffff03U;
constexpr std::uint32_t kTimeTag = 0xffffff04U;

inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// A rank that hangs is noticed by those who wait for it directly and told to the rest before they give up on somebody
// who waits for it as well. So waits end one after the other: for ranks of this host to come, for other hosts, and for
// what this host makes of it. The time between them leaves a network that gives up a moment to ask its peers who hangs.
struct HierarchicalBackend::Times {
  explicit Times(const Deadline& deadline)
      : Times(deadline, std::min<std::chrono::nanoseconds>(deadline.remaining() / 5, std::chrono::seconds(1))) {}
  Times(const Deadline& deadline, std::chrono::nanoseconds gap)
      : step(gap),
        arrival(Deadline::after(deadline.remaining() - 2 * gap)),
        network(Deadline::after(deadline.remaining() - gap)),
        host(deadline) {}

  // Ranks of a host come to a call one after the other, and the first to come is the first to give up: whoever waits
  // for the network has to give up before that. `first` is on the clock that all processes of a host share.
  void end_network_before(Clock::Instant first) {
    if (first - step < network.instant()) network = Deadline::after(first - step - system_clock().now());
  }

  std::chrono::nanoseconds step;
  Deadline arrival;
  Deadline network;
  Deadline host;
};

template <typename Action>
auto HierarchicalBackend::translated(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw in_global_ranks(error);
  }
}

template <typename Action>
auto HierarchicalBackend::between_hosts(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    tell_failure(error);
    throw;
  }
}

template <typename Action>
auto HierarchicalBackend::on_host(const Action& action) {
  return between_hosts([&] { return translated(action); });
}

// A message of this group, through either part. Errors name ranks of the whole group.
class HierarchicalBackend::Message final : public Transfer {
 public:
  Message(HierarchicalBackend& backend, bool near, std::unique_ptr<Transfer> transfer);
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() override;

  bool test() override;
  void wait(const Deadline& deadline) override;

 private:
  friend class HierarchicalBackend;

  HierarchicalBackend& backend_;
  bool near_;  // through the local part
  std::unique_ptr<Transfer> transfer_;
  bool done_ = false;
  std::optional<Error> error_;  // found while somebody waited for another message
};

// Messages of a collective that are under way.
class HierarchicalBackend::Exchange {
 public:
  explicit Exchange(HierarchicalBackend& backend) : backend_(backend) {}

  // Nothing is sent for zero bytes; both sides know the length.
  void send(int peer, std::uint32_t tag, const std::byte* data, std::size_t bytes) {
    if (bytes == 0) return;
    const ConstView view(ElementType::kUint8, data, bytes);
    transfers_.push_back({peer, backend_.between_hosts([&] { return backend_.send(peer, tag, view); })});
  }
  void receive(int peer, std::uint32_t tag, std::byte* data, std::size_t bytes) {
    if (bytes == 0) return;
    const View view(ElementType::kUint8, data, bytes);
    transfers_.push_back({peer, backend_.between_hosts([&] { return backend_.receive(peer, tag, view); })});
  }
  // `missing` is called only for time-outs and completes the sentence "rank 2 has not ...".
  void wait(const Deadline& deadline, const std::function<std::string()>& missing = {}) {
    for (const Pending& pending : transfers_)
      backend_.between_hosts([&] {
        try {
          pending.transfer->wait(deadline);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::kTimeout || !missing) throw;
          throw Error(
              ErrorKind::kTimeout,
              fmt::format("the deadline passed: rank {} has not {} ({})", pending.peer, missing(), error.message()),
              error.where(), error.remedy());
        }
      });
    transfers_.clear();
  }

 private:
  struct Pending {
    int peer;
    std::unique_ptr<Transfer> transfer;
  };

  HierarchicalBackend& backend_;
  std::vector<Pending> transfers_;
};

}  // namespace muster::comm
