// Messages of the parameter server cut into frames (proto/parameter_server.proto), and put together again.
//
// What arrives is checked before anything is allocated for it: whoever is at the other end can end the connection by
// nonsense, and nothing more. No torch here, and nothing of gRPC's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "muster/strategies/parameter_server/message_codec.h"

namespace muster::strategies {

constexpr std::size_t kMostFrameBody = std::size_t{1} << 20;
constexpr std::size_t kMostFrame = kMostFrameBody + 1024;  // with all that is around the body

// One part of a message; what it shows belongs to somebody else.
struct Frame {
  std::uint64_t call = 0;
  std::uint32_t part = 0;
  std::uint32_t checksum = 0;
  std::uint64_t body_bytes = 0;       // of the whole message; in part 0
  std::span<const std::byte> head{};  // in part 0
  std::span<const std::byte> body{};  // the next bytes: kMostFrameBody, or what is left
};

// CRC-32 of call, part, body_bytes (little-endian, all but the part 64 bits), head and body.
std::uint32_t checksum_of(const Frame& frame);

// Calls `take` for each frame of a message, in order.
void cut_into_frames(std::uint64_t call, const Head& head, std::span<const std::byte> body,
                     const std::function<void(const Frame& frame)>& take);

// A message that is whole.
struct Framed {
  std::uint64_t call = 0;
  Head head{};
  std::vector<std::byte> body{};
};

// Puts frames of one stream together. Thread safety: none.
class FrameJoiner {
 public:
  explicit FrameJoiner(std::size_t most_body) : most_body_(most_body) {}

  // The message that this frame completes, if it does. Throws kDamaged: after that nothing of the stream is of use.
  std::optional<Framed> add(const Frame& frame);

 private:
  std::size_t most_body_;
  std::uint32_t next_part_ = 0;  // 0: a message begins
  std::size_t body_bytes_ = 0;
  Framed message_;
};

}  // namespace muster::strategies
