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
#include <string>
#include <string_view>
#include <vector>

#include "muster/strategies/parameter_server/message.h"

namespace muster::strategies {

constexpr std::size_t kMostFrameBody = std::size_t{1} << 20;
constexpr std::size_t kMostFrame = kMostFrameBody + 1024;  // with all that is around the body

// Calls `frame` for each frame of a message, in order. header.bytes is set to the body's length.
void cut_into_frames(std::uint64_t call, const Header& header, std::span<const std::byte> body,
                     const std::function<void(std::string_view header, std::span<const std::byte> body)>& frame);

// A message that is whole.
struct Framed {
  std::uint64_t call = 0;
  Header header;
  std::vector<std::byte> body;
};

// Puts frames of one stream together. Thread safety: none.
class FrameJoiner {
 public:
  explicit FrameJoiner(std::size_t most_body) : most_body_(most_body) {}

  // The message that this frame completes, if it does. Throws kDamaged: after that nothing of the stream is of use.
  std::optional<Framed> add(std::string_view header, std::string_view body);

 private:
  std::size_t most_body_;
  std::uint32_t next_part_ = 0;  // 0: a message begins
  Framed message_;
};

}  // namespace muster::strategies
