// Requests and replies as bytes: the *head* of a message, which travels beside its body.
//
//   protocol version: 16 bits | number of the verb, or of the reply's details: 16 bits | fields of Request or Reply,
//   then those of the verb or the details, in the order of fields()
// all little-endian: numbers as they are, bools and enums as one byte, an optional as a bool and, if it is there, its
// value. What is decoded is checked: whatever the bytes were, the values are ones that a program of ours could have
// made, chunk numbers, steps and lengths aside, which only a server can judge. Nothing is allocated. No torch here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/strategies/parameter_server/message.h"

namespace muster::strategies {

// Of everything in message.h, and of this layout.
constexpr std::uint16_t kProtocolVersion = 2;
constexpr std::size_t kMostHead = 128;

struct Head {
  std::array<std::byte, kMostHead> bytes;  // the first `size` of them
  std::size_t size = 0;
  std::span<const std::byte> view() const { return std::span(bytes).first(size); }
};

Head encode(const Request& request);
Head encode(const Reply& reply);

// Throw kDamaged for what no encode() of this protocol version has made.
Request decode_request(std::span<const std::byte> head);
Reply decode_reply(std::span<const std::byte> head);

}  // namespace muster::strategies
