// The memory through which a parameter server and its clients on one host talk. For shm_transport.cpp only.
//
// control | one seat per client | one slot per client and call | their bodies, page by page | the server's own memory.
// A slot belongs to one side at a time; its word says to which, and changes by one store or compare-and-swap:
//   free -> posted (client: the request is whole) -> taken (server) -> replied (server: the reply is whole) -> free
// A word carries the epoch of the connection and the number of the call in it, by which the server takes calls in the
// order in which they were made. Every connection has a new epoch. It takes back what earlier ones left in its seat,
// but for calls that the server has taken: their bodies stay as they are until the server is done with them.
// Nothing is ever locked, so either side may be killed at any instruction. No torch here.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/strategies/parameter_server/doorbell.h"
#include "muster/strategies/parameter_server/message_codec.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {

enum class SlotState : std::uint8_t { kFree = 0, kPosted, kTaken, kReplied };

// sequence 32 | epoch 24 | state 8. All zero: free.
struct SlotWord {
  std::uint32_t sequence = 0;
  std::uint32_t epoch = 0;
  SlotState state = SlotState::kFree;

  static constexpr std::uint32_t kEpochMask = (std::uint32_t{1} << 24) - 1;
  constexpr std::uint64_t pack() const {
    return std::uint64_t{sequence} << 32 | std::uint64_t{epoch & kEpochMask} << 8 | static_cast<std::uint8_t>(state);
  }
  static constexpr SlotWord unpack(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word >> 8) & kEpochMask,
            static_cast<SlotState>(word & 0xff)};
  }
};

class ShmSeats {
 public:
  static constexpr std::uint64_t kMagic = 0x5345525650534d4d;  // "MMSPVRES" as bytes
  static constexpr std::uint32_t kLayoutVersion = 2;
  static constexpr int kMostClients = 4096;
  static constexpr int kMostWindow = 32;
  static constexpr std::size_t kPage = 4096;
  static constexpr const char* kPlace = "parameter server";

  struct alignas(64) Control {
    // Written before the magic number, and never again.
    std::atomic<std::uint64_t> magic;
    std::uint32_t layout_version;
    std::uint32_t clients;
    std::uint32_t window;
    std::uint32_t unused;
    std::uint64_t most_body;
    std::uint64_t memory_bytes;
    std::uint64_t total_bytes;
    std::uint64_t server;  // comm::ProcessWord

    alignas(64) Doorbell bell;  // of the server
    std::atomic<std::uint32_t> closed;
  };
  struct alignas(64) Seat {
    std::atomic<std::uint64_t> owner;  // comm::ProcessWord: whose connection it is
    std::atomic<std::uint32_t> epoch;  // of that connection, from 1; SlotWord has its lower bits
    alignas(64) Doorbell bell;         // of the client, which sleeps for slot + 1 or for anything
    alignas(64) std::array<std::atomic<std::uint64_t>, kMostWindow> words;  // SlotWord
  };
  struct alignas(64) Slot {
    std::array<std::byte, kMostHead> head_place;  // message_codec.h
    std::uint64_t head_bytes;
    std::uint64_t body_bytes;
    // Of a reply that lies in the server's memory; offsets are from its beginning.
    std::uint64_t in_place;
    std::uint64_t offset;
    std::uint64_t guard;
    std::uint64_t limit;

    void put(const Head& head, std::size_t bytes) {
      std::memcpy(head_place.data(), head.bytes.data(), head.size);
      head_bytes = head.size;
      body_bytes = bytes;
    }
    // Throws kDamaged.
    std::span<const std::byte> head() const {
      if (head_bytes > kMostHead)
        throw Error(ErrorKind::kDamaged, fmt::format("a message with a head of {} bytes", head_bytes), kPlace);
      return std::span(head_place).first(head_bytes);
    }
  };

  // Throws an error of this kind for limits that nobody can mean.
  static void check(const TransportLimits& limits, std::size_t memory_bytes, ErrorKind kind) {
    constexpr std::size_t kMost = std::size_t{1} << 46;
    const auto refuse = [kind](std::string_view what, std::uint64_t value, std::uint64_t most) {
      throw Error(kind, fmt::format("{} {}; from 1 to {} are possible", value, what, most), kPlace);
    };
    if (limits.clients < 1 || limits.clients > kMostClients)
      refuse("clients", static_cast<std::uint64_t>(limits.clients), kMostClients);
    if (limits.window < 1 || limits.window > kMostWindow)
      refuse("calls under way", static_cast<std::uint64_t>(limits.window), kMostWindow);
    if (limits.most_body < 1 || limits.most_body > std::size_t{1} << 32)
      refuse("bytes of a body", limits.most_body, std::uint64_t{1} << 32);
    if (memory_bytes > kMost) refuse("bytes", memory_bytes, kMost);
  }

  static std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  static std::size_t bytes(const TransportLimits& limits, std::size_t memory_bytes) {
    return bodies_at(limits) + slots(limits) * body_stride(limits) + round_up(memory_bytes);
  }

  ShmSeats(std::byte* base, const TransportLimits& limits, std::size_t memory_bytes)
      : base_(base), limits_(limits), memory_bytes_(memory_bytes) {}

  const TransportLimits& limits() const { return limits_; }
  Control& control() const { return *reinterpret_cast<Control*>(base_); }
  Seat& seat(std::size_t client) const { return reinterpret_cast<Seat*>(base_ + sizeof(Control))[client]; }
  Slot& slot(std::size_t index) const { return reinterpret_cast<Slot*>(base_ + slots_at(limits_))[index]; }
  std::byte* body(std::size_t index) const { return base_ + bodies_at(limits_) + index * body_stride(limits_); }
  std::span<std::byte> memory() const {
    return {base_ + bodies_at(limits_) + slots(limits_) * body_stride(limits_), memory_bytes_};
  }
  // Of a client's slot among all.
  std::size_t index(std::size_t client, int slot) const {
    return client * static_cast<std::size_t>(limits_.window) + static_cast<std::size_t>(slot);
  }

 private:
  static std::size_t slots(const TransportLimits& limits) {
    return static_cast<std::size_t>(limits.clients) * static_cast<std::size_t>(limits.window);
  }
  static std::size_t slots_at(const TransportLimits& limits) {
    return sizeof(Control) + static_cast<std::size_t>(limits.clients) * sizeof(Seat);
  }
  static std::size_t bodies_at(const TransportLimits& limits) {
    return round_up(slots_at(limits) + slots(limits) * sizeof(Slot));
  }
  static std::size_t body_stride(const TransportLimits& limits) { return round_up(limits.most_body); }

  std::byte* base_;
  TransportLimits limits_;
  std::size_t memory_bytes_;
};

}  // namespace muster::strategies
