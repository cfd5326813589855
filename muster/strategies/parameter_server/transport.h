// How calls travel between clients (workers, and servers that copy to each other) and a server.
//
// Two kinds: shared memory on one host (shm_transport.h) and gRPC streams (grpc_transport.h). Both give up to `window`
// calls of a client under way at once, answered in any order; a client that wants more waits (back-pressure). A
// transport never sends a call again by itself: after kPeerLost or kTimeout the client does not know whether the call
// took effect, connects again and sends it with the same id.
//
// Thread safety: one thread per Connection, and one per Inbox.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/base/deadline.h"
#include "muster/strategies/parameter_server/message.h"

namespace muster::strategies {

struct TransportLimits {
  std::size_t most_body = std::size_t{4} << 20;  // bytes of a body, in either direction
  int window = 8;                                // calls of a client under way
  int clients = 1;                               // numbers 0 .. clients-1
};

// A client's end. Dropping it forgets the calls under way.
class Connection {
 public:
  using Call = std::uint64_t;

  virtual ~Connection() = default;

  // Sends a request; the reply's body will be copied to `reply`, which must stay until then. The body may be reused as
  // soon as this returns. Nothing when `window` calls are under way. Throws kPeerLost.
  // REQUIRES: body.size() <= most_body.
  virtual std::optional<Call> try_start(const Request& request, std::span<const std::byte> body,
                                        std::span<std::byte> reply) = 0;
  // The same, but waits for room. Throws kTimeout.
  Call start(const Request& request, std::span<const std::byte> body, std::span<std::byte> reply,
             const Deadline& deadline);

  // Whether the reply is there; never waits. Throws kPeerLost.
  virtual bool done(Call call) = 0;
  // The reply, once. Throws kTimeout, kPeerLost; kDamaged when it is none of this protocol, or the body is longer than
  // `reply` of the request. Only that of a refusal is cut instead: who expects no body is refused, too.
  virtual Reply wait(Call call, const Deadline& deadline) = 0;

  // Waits until something may have changed for try_start() or done().
  virtual void pause(const Deadline& deadline) = 0;
};

// A call as a server sees it: decoded, and checked as message_codec.h says. The body is valid until it is answered.
struct Incoming {
  std::uint64_t handle = 0;
  Request request;
  std::span<const std::byte> body;
};

// A server's end.
class Inbox {
 public:
  virtual ~Inbox() = default;

  // Where clients connect to; a word without spaces.
  virtual const std::string& address() const = 0;

  // The next call, or nothing at the deadline or after wake(). A client whose process is gone is forgotten, and its
  // calls with it: answers to them go nowhere. What is no request of this protocol never comes so far.
  virtual std::optional<Incoming> next(const Deadline& deadline) = 0;
  // From any thread: next() returns.
  virtual void wake() = 0;

  // Answers a call, now or later, once.
  virtual void reply(std::uint64_t handle, const Reply& reply, std::span<const std::byte> body) = 0;
  // The same with a body that lies in memory(): on one host the client reads it there, without a copy of ours. It is
  // then right only if `guard` is below `limit` afterwards: a server that wants to change it raises the guard first,
  // and never waits for readers. A client that read too slowly is given status kWait and asks again.
  virtual void reply_in_place(std::uint64_t handle, const Reply& reply, std::span<const std::byte> body,
                              const std::atomic<std::uint64_t>& guard, std::uint64_t limit) = 0;
  // As asked for at construction, zero, aligned to 4096 bytes.
  virtual std::span<std::byte> memory() = 0;
};

}  // namespace muster::strategies
