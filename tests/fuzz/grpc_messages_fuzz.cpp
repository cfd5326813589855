// A stream of a parameter server over gRPC, from either end: frames as protobuf gives them, put together to messages.
// The first byte says whose stream it is, and whether checksums are made right, which mutation alone would never find;
// then each frame, with its length in two bytes before it. What is taken says the same when it is sent again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "muster/base/error.h"
#include "muster/strategies/parameter_server/grpc_messages.h"

namespace {

using namespace muster::strategies;

constexpr std::size_t kMostStreamBody = 1 << 16;

// The frame's checksum as its sender would have made it.
void make_checksum_right(wire::Frame& frame, WireJoiner::Side side) {
  Head head;
  if (frame.part() == 0)
    head = side == WireJoiner::Side::kRequests ? encode(request_from_wire(frame)) : encode(reply_from_wire(frame));
  const Frame view{.call = frame.call(),
                   .part = frame.part(),
                   .body_bytes = frame.body_bytes(),
                   .head = head.view(),
                   .body = std::as_bytes(std::span(frame.body()))};
  frame.set_checksum(checksum_of(view));
}

// Both codecs know the same messages.
void say_again(const Framed& message, WireJoiner::Side side) {
  wire::Frame again;
  Head head;
  if (side == WireJoiner::Side::kRequests) {
    to_wire(decode_request(message.head.view()), again);
    head = encode(request_from_wire(again));
  } else {
    to_wire(decode_reply(message.head.view()), again);
    head = encode(reply_from_wire(again));
  }
  if (!std::ranges::equal(head.view(), message.head.view()) || message.body.size() > kMostStreamBody) std::abort();
}

void join_stream(std::span<const std::uint8_t> bytes, WireJoiner::Side side, bool right) {
  WireJoiner joiner(side, kMostStreamBody);
  while (bytes.size() > 2) {
    const std::size_t length = std::min<std::size_t>(std::size_t{bytes[0]} << 8 | bytes[1], bytes.size() - 2);
    wire::Frame frame;
    if (!frame.ParseFromArray(bytes.data() + 2, static_cast<int>(length))) return;
    bytes = bytes.subspan(2 + length);
    if (right) make_checksum_right(frame, side);
    if (const auto message = joiner.add(frame)) say_again(*message, side);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  const auto side = (input[0] & 1) == 0 ? WireJoiner::Side::kRequests : WireJoiner::Side::kReplies;
  try {
    join_stream(std::span(input + 1, size - 1), side, (input[0] & 2) == 0);
  } catch (const muster::Error&) {
  }
  return 0;
}
