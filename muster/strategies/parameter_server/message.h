// What clients and servers of the parameter server say to each other: a header of fixed size, and a body of bytes.
//
// A call is one request and one reply. Every request carries the generation of the server map by which it was sent: a
// server that has a later one refuses it (kStale), so that nobody acts on a map that is out of date. An update carries
// an id, by which a server knows that it has applied it: a call that was sent again takes effect once. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace muster::strategies {

enum class Verb : std::uint32_t {
  kNone = 0,
  kPull,      // a chunk's parameters, as they are now
  kPush,      // an update of a chunk
  kRead,      // a chunk's whole state: for checkpoints
  kWrite,     // a chunk's whole state, once: the first values, or a checkpoint's
  kFill,      // primary to copy: a chunk's whole state
  kRecords,   // block sums of a step whose lanes are all there
  kApply,     // the verdict on a step
  kPullRows,  // rows of a table
  kPushRows,  // gradients of rows of a table
  kLease,     // the next thing to do, please
  kReport,    // what a server has counted; in `id` the number of the client's next own update of the chunk
  kReopen,    // server to book: of the lanes that are in it, these alone are in a chunk that was lost
  kKeep,      // writes a chunk down, where servers do, before it answers
};

enum class Status : std::uint32_t {
  kDone = 0,
  kDuplicate,  // it was applied before
  kLate,       // its step was closed without it
  kStale,      // sent by an older server map
  kWait,       // nothing to do yet: ask again
  kRefused,    // it cannot be right; the body says why
};

enum MessageFlag : std::uint32_t {
  kKept = 1,        // a lane of a synchronous step: it is kept until the step is closed
  kSomeAbsent = 2,  // marks of the tensors that have a gradient follow the floats
  kSkipped = 4,     // the step is closed without an update
  kOwnUpdate = 8,   // not a lane: the client's own update, number `id`
  kCopied = 16,     // from the primary to a copy
  kSeen = 32,       // `first` is the highest version of the chunk that the client was told of
  kExact = 64,      // kPull: with all steps before `step`
};

// Of flags with kCopied: the client whose update it was stands above.
constexpr std::uint32_t kClientShift = 16;

// Plain bytes, in the order of a little-endian machine. What a field means for a verb: shard.h, book.h and
// table_shard.h.
struct Header {
  Verb verb = Verb::kNone;
  Status status = Status::kDone;
  std::uint64_t generation = 0;  // of the server map
  std::uint32_t client = 0;
  std::uint32_t chunk = 0;
  std::uint64_t id = 0;       // of an update
  std::uint64_t version = 0;  // of the chunk: seen by the sender of a request, current in a reply
  std::uint64_t step = 0;
  std::uint32_t lane = 0;
  std::uint32_t flags = 0;
  double rate = 0;   // the learning rate
  double scale = 1;  // of the gradient
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t bytes = 0;  // of the body; set by the transport
};
static_assert(sizeof(Header) == 96 && std::is_trivially_copyable_v<Header>);

std::string_view to_string(Verb verb);
std::string_view to_string(Status status);

}  // namespace muster::strategies
