// Cutting and joining side by side. Lengths that a head claims are held against the transport's limits before memory is
// taken for them.
#include "muster/strategies/parameter_server/frames.h"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::strategies {
namespace {

[[noreturn]] void refuse(std::string reason) {
  throw Error(ErrorKind::kDamaged, std::move(reason), "parameter server");
}

uLong add_bytes(uLong sum, const void* bytes, std::size_t size) {
  return size == 0 ? sum : ::crc32_z(sum, static_cast<const Bytef*>(bytes), size);
}

}  // namespace

std::uint32_t checksum_of(const Frame& frame) {
  uLong sum = add_bytes(0, &frame.call, sizeof frame.call);
  sum = add_bytes(sum, &frame.part, sizeof frame.part);
  sum = add_bytes(sum, &frame.body_bytes, sizeof frame.body_bytes);
  sum = add_bytes(sum, frame.head.data(), frame.head.size());
  return static_cast<std::uint32_t>(add_bytes(sum, frame.body.data(), frame.body.size()));
}

void cut_into_frames(std::uint64_t call, const Head& head, std::span<const std::byte> body,
                     const std::function<void(const Frame& frame)>& take) {
  Frame frame{.call = call, .body_bytes = body.size(), .head = head.view()};
  std::size_t at = 0;
  do {
    frame.body = body.subspan(at, std::min(body.size() - at, kMostFrameBody));
    frame.checksum = checksum_of(frame);
    take(frame);
    at += frame.body.size();
    frame.head = {};  // only the first has it, and the length
    frame.body_bytes = 0;
    ++frame.part;
  } while (at < body.size());
}

std::optional<Framed> FrameJoiner::add(const Frame& frame) {
  if (frame.checksum != checksum_of(frame)) refuse("a frame that was altered on its way");
  if (frame.part != next_part_)
    refuse(fmt::format("part {} of a message where part {} was due", frame.part, next_part_));
  if (frame.part == 0) {
    if (frame.head.empty() || frame.head.size() > kMostHead)
      refuse(fmt::format("a frame with a head of {} bytes", frame.head.size()));
    if (frame.body_bytes > most_body_)
      refuse(fmt::format("a body of {} bytes; at most {} are possible", frame.body_bytes, most_body_));
    message_.call = frame.call;
    std::ranges::copy(frame.head, message_.head.bytes.begin());
    message_.head.size = frame.head.size();
    message_.body.clear();
    message_.body.reserve(frame.body_bytes);
    body_bytes_ = frame.body_bytes;
  } else if (frame.call != message_.call) {
    refuse(fmt::format("a part of call {} in the middle of call {}", frame.call, message_.call));
  } else if (!frame.head.empty() || frame.body_bytes != 0) {
    refuse(fmt::format("a head in part {} of a message", frame.part));
  }
  const std::size_t left = body_bytes_ - message_.body.size();
  if (frame.body.size() != std::min(left, kMostFrameBody))
    refuse(fmt::format("a frame with {} bytes of a body where {} were due", frame.body.size(),
                       std::min(left, kMostFrameBody)));
  message_.body.insert(message_.body.end(), frame.body.begin(), frame.body.end());
  if (frame.body.size() < left) {
    ++next_part_;
    return std::nullopt;
  }
  next_part_ = 0;
  return std::exchange(message_, {});
}

}  // namespace muster::strategies
