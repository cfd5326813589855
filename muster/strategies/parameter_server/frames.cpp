#include "muster/strategies/parameter_server/frames.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::strategies {
namespace {

constexpr std::uint32_t kMagic = 0x3153504d;  // "MPS1" as bytes

struct FrameHead {
  std::uint32_t magic = kMagic;
  std::uint32_t part = 0;
  std::uint64_t call = 0;
  std::uint32_t checksum = 0;
  std::uint32_t unused = 0;
};
static_assert(sizeof(FrameHead) == 24);

[[noreturn]] void refuse(std::string reason) {
  throw Error(ErrorKind::kDamaged, std::move(reason), "parameter server");
}

// Of a frame whose head has 0 for it. `rest` is what follows the head in the header.
std::uint32_t checksum(FrameHead head, std::string_view rest, std::span<const std::byte> body) {
  head.checksum = 0;
  uLong sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(&head), sizeof head);
  if (!rest.empty()) sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(rest.data()), rest.size());
  if (!body.empty()) sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(body.data()), body.size());
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

void cut_into_frames(std::uint64_t call, const Header& header, std::span<const std::byte> body,
                     const std::function<void(std::string_view header, std::span<const std::byte> body)>& frame) {
  Header whole = header;
  whole.bytes = body.size();
  std::string_view rest(reinterpret_cast<const char*>(&whole), sizeof whole);
  FrameHead head{.call = call};
  std::size_t at = 0;
  do {
    const std::span<const std::byte> part = body.subspan(at, std::min(body.size() - at, kMostFrameBody));
    head.checksum = checksum(head, rest, part);
    frame(std::string(reinterpret_cast<const char*>(&head), sizeof head).append(rest), part);
    at += part.size();
    rest = {};  // only the first has it
    ++head.part;
  } while (at < body.size());
}

std::optional<Framed> FrameJoiner::add(std::string_view header, std::string_view body) {
  FrameHead head;
  if (header.size() < sizeof head) refuse(fmt::format("a frame with a header of {} bytes", header.size()));
  std::memcpy(&head, header.data(), sizeof head);
  if (head.magic != kMagic) refuse("a frame that does not begin as one does");
  const std::span<const std::byte> bytes = std::as_bytes(std::span(body));
  if (head.checksum != checksum(head, header.substr(sizeof head), bytes)) refuse("a frame that was altered on its way");
  if (head.part != next_part_) refuse(fmt::format("part {} of a message where part {} was due", head.part, next_part_));
  const std::size_t expected = sizeof head + (head.part == 0 ? sizeof(Header) : 0);
  if (header.size() != expected)
    refuse(fmt::format("a frame with a header of {} bytes where {} were due", header.size(), expected));
  if (head.part == 0) {
    message_.call = head.call;
    std::memcpy(&message_.header, header.data() + sizeof head, sizeof message_.header);
    if (message_.header.bytes > most_body_)
      refuse(fmt::format("a body of {} bytes; at most {} are possible", message_.header.bytes, most_body_));
    message_.body.clear();
    message_.body.reserve(message_.header.bytes);
  } else if (head.call != message_.call) {
    refuse(fmt::format("a part of call {} in the middle of call {}", head.call, message_.call));
  }
  const std::size_t left = message_.header.bytes - message_.body.size();
  if (body.size() != std::min(left, kMostFrameBody))
    refuse(
        fmt::format("a frame with {} bytes of a body where {} were due", body.size(), std::min(left, kMostFrameBody)));
  message_.body.insert(message_.body.end(), bytes.begin(), bytes.end());
  if (body.size() < left) {
    ++next_part_;
    return std::nullopt;
  }
  next_part_ = 0;
  return std::exchange(message_, {});
}

}  // namespace muster::strategies
