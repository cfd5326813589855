// What clients and servers of the parameter server say to each other: a struct for each verb, with fields of its own
// meaning, and bytes as a body. How they are laid out as bytes: message_codec.h; over gRPC: proto/.
//
// A call is one request and one reply. Every request carries the generation of the server map by which it was sent: a
// server that has a later one refuses it (kStale), so that nobody acts on a map that is out of date. An update carries
// a number, or its step and lane, by which a server knows that it has applied it: a call that was sent again takes
// effect once. All structs are plain values of a few dozen bytes; fields() is the one list by which a struct is written
// and read. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "muster/strategies/lane_result.h"

namespace muster::strategies {

// A chunk is of one of three kinds.
enum class ChunkKind : std::uint8_t { kParameters, kBook, kPartition };

enum class Status : std::uint8_t {
  kDone = 0,
  kDuplicate,  // it was applied before
  kLate,       // its step was closed without it
  kStale,      // sent by an older server map
  kWait,       // nothing to do yet: ask again
  kRefused,    // it cannot be right; the body says why
};

// What becomes of a lane that is pushed.
enum class LaneManner : std::uint8_t {
  kAtOnce,   // it is applied as it comes
  kKept,     // of a synchronous step: until that is closed
  kSkipped,  // it has no update; who waits for it need not
};

// What a worker asks the book for.
enum class Want : std::uint8_t {
  kLane,       // a lane of the step
  kOwnLane,    // the same, but only of those that are this worker's
  kCommitted,  // that the step is over
  kSettled,    // that all steps before this one are over
};

enum class Grant : std::uint8_t {
  kLane,         // this one
  kNothingLeft,  // others have them all
  kFinish,       // all lanes that count are there: sum and apply them
  kClosed,       // it is
};

// What a lane came to, for the book.
struct LaneEntry {
  double loss_sum = 0;
  double score = 0;
  std::uint64_t stop = 0;  // 1: its worker was asked to
  std::uint64_t change = 0;
  std::uint64_t samples = 0;
  static LaneEntry of(const LaneResult& result, std::uint64_t samples) {
    return {result.report.loss_sum, result.report.score, result.wishes.stop ? 1U : 0U, result.wishes.change, samples};
  }
  LaneResult result() const { return {{loss_sum, score}, {stop != 0, change}}; }
  static void fields(auto& self, auto&& io) { io(self.loss_sum, self.score, self.stop, self.change, self.samples); }
  bool operator==(const LaneEntry&) const = default;
};

// Of a step, or, where steps are not taken together, of all lanes so far.
struct StepResult {
  double loss_sum = 0;
  double score = 0;
  std::uint64_t samples = 0;
  std::uint64_t change = 0;
  double gradient_norm = 0;
  std::uint32_t applied = 1;
  std::uint32_t stop = 0;
  LaneResult totals() const { return {{loss_sum, score}, {stop != 0, change}}; }
  static void fields(auto& self, auto&& io) {
    io(self.loss_sum, self.score, self.samples, self.change, self.gradient_norm, self.applied, self.stop);
  }
  bool operator==(const StepResult&) const = default;
};

// --- Requests. kName is for people; kOf is the kind of chunk that understands it, where not all do.

// The chunk's parameters as they are now, which are the reply's body.
struct PullRequest {
  std::optional<std::uint64_t> settled_step{};  // with all steps before this one, or else kWait
  std::optional<std::uint64_t> seen_version{};  // the highest that the client was told of, for a server that came back
  static constexpr std::string_view kName = "pull";
  static constexpr std::optional kOf = ChunkKind::kParameters;
  static void fields(auto& self, auto&& io) { io(self.settled_step, self.seen_version); }
  bool operator==(const PullRequest&) const = default;
};

// The model's buffers, which the book keeps. The reply's body: they.
struct PullBuffersRequest {
  std::optional<std::uint64_t> settled_step{};  // as of PullRequest
  std::optional<std::uint64_t> seen_version{};
  static constexpr std::string_view kName = "pull buffers";
  static constexpr std::optional kOf = ChunkKind::kBook;
  static void fields(auto& self, auto&& io) { io(self.settled_step, self.seen_version); }
  bool operator==(const PullBuffersRequest&) const = default;
};

// Rows of a partition. Body: int64 keys; the reply's: their rows.
struct PullRowsRequest {
  std::optional<std::uint64_t> seen_version{};  // as of PullRequest
  static constexpr std::string_view kName = "pull rows";
  static constexpr std::optional kOf = ChunkKind::kPartition;
  static void fields(auto& self, auto&& io) { io(self.seen_version); }
  bool operator==(const PullRowsRequest&) const = default;
};

// A lane's gradient of the chunk. Body: the floats, then, with `some_absent`, a mark for each tensor of the chunk that
// says whether it has a gradient; of a lane that is skipped nothing.
struct PushLaneRequest {
  std::uint64_t step = 0;
  std::uint32_t lane = 0;
  std::uint32_t lanes = 0;           // of the step
  std::uint64_t pulled_version = 0;  // of the chunk, by which the gradient was computed
  double rate = 0;                   // the learning rate
  double scale = 1;                  // of the gradient
  LaneManner manner = LaneManner::kAtOnce;
  bool some_absent = false;
  static constexpr std::string_view kName = "push";
  static constexpr std::optional kOf = ChunkKind::kParameters;
  static void fields(auto& self, auto&& io) {
    io(self.step, self.lane, self.lanes, self.pulled_version, self.rate, self.scale, self.manner, self.some_absent);
  }
  bool operator==(const PushLaneRequest&) const = default;
};

// A gradient that is no lane's: the client's own update, by a program. Body: the floats.
struct PushUpdateRequest {
  std::uint64_t update = 0;      // of this client and chunk, counted up
  std::uint64_t over_below = 0;  // all of the client's updates below are over
  double rate = 0;
  double scale = 1;
  static constexpr std::string_view kName = "push update";
  static constexpr std::optional kOf = ChunkKind::kParameters;
  static void fields(auto& self, auto&& io) { io(self.update, self.over_below, self.rate, self.scale); }
  bool operator==(const PushUpdateRequest&) const = default;
};

// Gradients of rows of a partition. Body: int64 keys, then a row for each.
struct PushRowsRequest {
  std::uint64_t update = 0;  // as of PushUpdateRequest
  std::uint64_t over_below = 0;
  double rate = 0;
  double scale = 1;
  std::uint64_t step = 0;  // the job's, in which eviction counts
  static constexpr std::string_view kName = "push rows";
  static constexpr std::optional kOf = ChunkKind::kPartition;
  static void fields(auto& self, auto&& io) { io(self.update, self.over_below, self.rate, self.scale, self.step); }
  bool operator==(const PushRowsRequest&) const = default;
};

// A lane that all chunks have, into the book. Body: the lane's buffers.
struct PushEntryRequest {
  std::uint64_t step = 0;
  std::uint32_t lane = 0;
  std::uint32_t lanes = 0;           // of the step
  std::uint64_t leased_version = 0;  // of the book, when the lane was leased
  LaneManner manner = LaneManner::kAtOnce;
  LaneEntry entry{};
  static constexpr std::string_view kName = "push entry";
  static constexpr std::optional kOf = ChunkKind::kBook;
  static void fields(auto& self, auto&& io) {
    io(self.step, self.lane, self.lanes, self.leased_version, self.manner, self.entry);
  }
  bool operator==(const PushEntryRequest&) const = default;
};

// Block sums of a step whose lanes are all there. The reply's body: compute::BlockSum, of the chunk's blocks.
struct RecordsRequest {
  std::uint64_t step = 0;
  std::uint64_t mask = 0;  // the lanes that count
  static constexpr std::string_view kName = "records";
  static constexpr std::optional kOf = ChunkKind::kParameters;
  static void fields(auto& self, auto&& io) { io(self.step, self.mask); }
  bool operator==(const RecordsRequest&) const = default;
};

// The verdict on a step: its lanes are applied, or, if a gradient was not finite, skipped.
struct ApplyRequest {
  std::uint64_t step = 0;
  std::uint64_t mask = 0;
  double rate = 0;
  double scale = 1;
  bool skipped = false;
  static constexpr std::string_view kName = "apply";
  static constexpr std::optional kOf = ChunkKind::kParameters;
  static void fields(auto& self, auto&& io) { io(self.step, self.mask, self.rate, self.scale, self.skipped); }
  bool operator==(const ApplyRequest&) const = default;
};

// The step is over in all chunks: the book closes it.
struct CloseRequest {
  std::uint64_t step = 0;
  std::uint64_t mask = 0;
  double gradient_norm = 0;
  bool skipped = false;
  static constexpr std::string_view kName = "close";
  static constexpr std::optional kOf = ChunkKind::kBook;
  static void fields(auto& self, auto&& io) { io(self.step, self.mask, self.gradient_norm, self.skipped); }
  bool operator==(const CloseRequest&) const = default;
};

// The next thing to do, please.
struct LeaseRequest {
  Want want = Want::kLane;
  std::uint64_t step = 0;
  std::uint32_t lanes = 0;               // of the step
  std::uint32_t place = 0;               // of this worker among all
  std::uint32_t workers = 0;             // of which there are so many
  std::uint64_t workers_generation = 0;  // what was leased in an earlier one is void
  static constexpr std::string_view kName = "lease";
  static constexpr std::optional kOf = ChunkKind::kBook;
  static void fields(auto& self, auto&& io) {
    io(self.want, self.step, self.lanes, self.place, self.workers, self.workers_generation);
  }
  bool operator==(const LeaseRequest&) const = default;
};

// Server to book: of the lanes that are in it, these alone are in a chunk that was lost. Body: an AppliedSet.
struct ReopenRequest {
  static constexpr std::string_view kName = "reopen";
  static constexpr std::optional kOf = ChunkKind::kBook;
  static void fields(auto&, auto&&) {}
  bool operator==(const ReopenRequest&) const = default;
};

// The chunk's whole state from `offset` on, as much as fits: for checkpoints. Answered with a ReadReply.
struct ReadRequest {
  std::uint64_t offset = 0;
  static constexpr std::string_view kName = "read";
  static constexpr std::optional<ChunkKind> kOf{};
  static void fields(auto& self, auto&& io) { io(self.offset); }
  bool operator==(const ReadRequest&) const = default;
};

// A piece of a chunk's whole state, once: the first values, or a checkpoint's. Body: the piece.
struct WriteRequest {
  std::uint64_t offset = 0;  // of the piece in the state
  std::uint64_t total = 0;   // bytes of the state
  static constexpr std::string_view kName = "write";
  static constexpr std::optional<ChunkKind> kOf{};
  static void fields(auto& self, auto&& io) { io(self.offset, self.total); }
  bool operator==(const WriteRequest&) const = default;
};

// The same from a chunk's primary to a copy.
struct FillRequest {
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
  static constexpr std::string_view kName = "fill";
  static constexpr std::optional<ChunkKind> kOf{};
  static void fields(auto& self, auto&& io) { io(self.offset, self.total); }
  bool operator==(const FillRequest&) const = default;
};

// Writes the chunk down, where servers do, before it is answered.
struct KeepRequest {
  static constexpr std::string_view kName = "keep";
  static constexpr std::optional<ChunkKind> kOf{};
  static void fields(auto&, auto&&) {}
  bool operator==(const KeepRequest&) const = default;
};

// What a server has counted. Answered with a ReportReply; its body: JSON.
struct ReportRequest {
  static constexpr std::string_view kName = "report";
  static constexpr std::optional<ChunkKind> kOf{};
  static void fields(auto&, auto&&) {}
  bool operator==(const ReportRequest&) const = default;
};

// In the order of their numbers on the wire: new ones go to the end.
using Verb = std::variant<PullRequest, PullBuffersRequest, PullRowsRequest, PushLaneRequest, PushUpdateRequest,
                          PushRowsRequest, PushEntryRequest, RecordsRequest, ApplyRequest, CloseRequest, LeaseRequest,
                          ReopenRequest, ReadRequest, WriteRequest, FillRequest, KeepRequest, ReportRequest>;

struct Request {
  std::uint64_t generation = 0;  // of the server map
  std::uint32_t chunk = 0;
  std::optional<std::uint32_t> passed_on_for{};  // from a chunk's primary to a copy: the client whose change it was
  Verb verb{};
  std::uint32_t client = 0;  // who calls. Transports say so: it does not travel
  bool operator==(const Request&) const = default;
};

// --- Replies, of verbs that are told more than how it went.

struct ReadReply {
  std::uint64_t total = 0;  // bytes of the state, of which the body is a piece
  static void fields(auto& self, auto&& io) { io(self.total); }
  bool operator==(const ReadReply&) const = default;
};

struct LeaseReply {
  Grant grant = Grant::kLane;
  std::uint32_t lane = 0;              // kLane
  std::uint64_t mask = 0;              // kFinish: the lanes that count,
  std::uint64_t samples = 0;           // and what they have together
  std::uint64_t updates = 0;           // that the book has: the version of a lane that is leased now
  std::uint64_t floor = 0;             // all steps below are over
  std::optional<StepResult> result{};  // kClosed, to one that wanted kCommitted; none if it is not known any more
  static void fields(auto& self, auto&& io) {
    io(self.grant, self.lane, self.mask, self.samples, self.updates, self.floor, self.result);
  }
  bool operator==(const LeaseReply&) const = default;
};

struct ReportReply {
  std::uint64_t next_update = 0;  // the number of the client's next own update of the chunk
  static void fields(auto& self, auto&& io) { io(self.next_update); }
  bool operator==(const ReportReply&) const = default;
};

// In the order of their numbers on the wire.
using Details = std::variant<std::monostate, ReadReply, LeaseReply, ReportReply>;

struct Reply {
  Status status = Status::kDone;
  std::uint64_t generation = 0;  // of the server's map
  std::uint64_t version = 0;     // of the chunk as it is now; 0 if it is not there
  Details details{};
  std::uint64_t bytes = 0;  // of the body. Transports say so: it does not travel
  bool operator==(const Reply&) const = default;
};

std::string_view name_of(const Verb& verb);
// The kind of chunk that understands the verb; nothing: all do.
std::optional<ChunkKind> kind_of(const Verb& verb);

// The details of a reply: ReadReply, LeaseReply or ReportReply. Throws kDamaged when the server has sent others.
template <typename Wanted>
const Wanted& details_of(const Reply& reply);

}  // namespace muster::strategies
