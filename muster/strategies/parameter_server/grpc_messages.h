// Requests, replies and frames as the gRPC contract has them (proto/parameter_server.proto), both ways. For sources of
// the gRPC transport and their tests: it brings what is generated.
#pragma once

#include "muster/strategies/parameter_server/frames.h"
#include "parameter_server.grpc.pb.h"

namespace muster::strategies {

namespace wire = muster::parameter_server::v2;

// Of part 0: what it is about.
void to_wire(const Request& request, wire::Frame& frame);
void to_wire(const Reply& reply, wire::Frame& frame);
// Number, checksum and body.
void to_wire(const Frame& from, wire::Frame& to);

// Throw kDamaged for what is not in the contract: no verb, or an enum that nobody knows.
Request request_from_wire(const wire::Frame& frame);
Reply reply_from_wire(const wire::Frame& frame);

// Puts requests, or replies, of one stream together. Thread safety: none.
class WireJoiner {
 public:
  enum class Side { kRequests, kReplies };
  WireJoiner(Side side, std::size_t most_body) : side_(side), joiner_(most_body) {}

  // As FrameJoiner::add().
  std::optional<Framed> add(const wire::Frame& frame);

 private:
  const Side side_;
  FrameJoiner joiner_;
};

}  // namespace muster::strategies
