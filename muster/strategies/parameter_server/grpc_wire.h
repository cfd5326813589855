// What both ends of the gRPC transport share. For grpc_inbox.cpp and grpc_connection.cpp only: it brings gRPC's
// headers.
#pragma once

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/local_connection.h"
#include "muster/strategies/parameter_server/grpc_messages.h"

namespace muster::strategies {

constexpr const char* kTokenKey = "muster-token";
constexpr const char* kClientKey = "muster-client";
constexpr const char* kReadyKey = "muster-ready";
constexpr const char* kGrpcPlace = "parameter server";
// Frames of HTTP/2: the default of 16 KiB costs a third of the rate on loopback.
constexpr int kHttpFrame = 1 << 20;

// What stands before the port of "ADDRESS:PORT", where that is an address in numbers (IPv6 in brackets); else nothing.
// A name is not taken: what it leads to may change.
inline std::optional<std::string> numeric_host(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return std::nullopt;
  const std::string host = address.substr(0, colon);
  const std::string_view digits = std::string_view(address).substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failure != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  in_addr four{};
  in6_addr six{};
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool numbers = brackets ? ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six) == 1
                                : ::inet_pton(AF_INET, host.c_str(), &four) == 1;
  return numbers ? std::optional(host) : std::nullopt;
}

// Throws kInvalidInput for what is not a Unix socket or a numeric address of the loopback interface with a port; with
// `other_hosts` any numeric address will do.
inline void require_place(const std::string& address, bool other_hosts) {
  if (control::is_local(address)) return;
  const std::optional<std::string> host = numeric_host(address);
  const bool loopback = host && (*host == "[::1]" || host->starts_with("127."));
  if (host && (loopback || other_hosts)) return;
  if (other_hosts)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no address with a port", address), kGrpcPlace,
                "Give it in numbers: 10.0.0.1:PORT, [fd00::1]:PORT.");
  throw Error(
      ErrorKind::kInvalidInput, fmt::format("\"{}\" is no place on this machine", address), kGrpcPlace,
      "Servers listen on loopback or a Unix socket: 127.0.0.1:PORT, [::1]:PORT, unix:PATH, unix-abstract:NAME.");
}

// Frames that wait to be written. Any number of threads put messages in; one takes frames out.
class Outbox {
 public:
  // A Request or a Reply.
  template <typename Message>
  void put(std::uint64_t call, const Message& message, std::span<const std::byte> body) {
    std::deque<wire::Frame> frames;
    cut_into_frames(call, encode(message), body, [&](const Frame& frame) {
      to_wire(frame, frames.emplace_back());
      if (frame.part == 0) to_wire(message, frames.back());
    });
    const MutexLock lock(mutex_);
    if (closed_) return;
    for (wire::Frame& frame : frames)
      frames_.push_back(std::move(frame));
    changed_.notify_one();
  }

  // False once it is closed.
  bool take(wire::Frame& frame) {
    const MutexLock lock(mutex_);
    while (frames_.empty() && !closed_)
      changed_.wait(mutex_);
    if (closed_) return false;
    frame = std::move(frames_.front());
    frames_.pop_front();
    return true;
  }

  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::deque<wire::Frame> frames_ MUSTER_GUARDED_BY(mutex_);
  bool closed_ MUSTER_GUARDED_BY(mutex_) = false;
};

}  // namespace muster::strategies
