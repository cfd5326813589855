// The book of a job: which lanes have been applied, who computes what, and what the steps came to. One chunk of the
// parameter server, replicated like the others.
//
// A lane's worker writes it into the book last, when all chunks have its gradient: a lane that is in the book has been
// applied everywhere, so the book alone says what is left to do. Leases are not part of the state. They are void when
// the workers change (their generation is higher) and when the book moves to another server; a lane that is then
// computed twice is applied once, because every chunk knows the lanes it has seen. A worker has one lease at a time:
// one that asks for a lane has given up what it had, or has never learned of it because the answer was lost.
//
// Thread safety: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/strategies/parameter_server/applied_set.h"
#include "muster/strategies/parameter_server/message.h"
#include "muster/strategies/parameter_server/server_plan.h"

namespace muster::strategies {

// What has happened, for people.
struct BookCounts {
  static constexpr std::size_t kStaleness = 64;  // the last counts all above, too

  std::uint64_t updates = 0;
  std::uint64_t dropped = 0;   // lanes that came too late, of backup steps
  std::uint64_t repeated = 0;  // pushes of lanes that were in the book
  std::uint64_t skipped = 0;   // lanes whose gradient was not finite
  std::uint64_t again = 0;     // of the updates, lanes that were in the book before: a server that was lost took them
  std::array<std::uint64_t, kStaleness> staleness{};
};

class Book {
 public:
  // Of closed steps it knows what they came to, for workers that ask late: a worker that gave no sign of life for as
  // long as so many steps take would have been replaced.
  static constexpr std::size_t kClosedSteps = 4096;

  explicit Book(const ServerPlan& plan);

  // To a worker, by its number: an answer, or nothing as long as there is none to give. Throws kInvalidInput for what
  // cannot be asked.
  std::optional<LeaseReply> lease(std::uint32_t worker, const LeaseRequest& request);
  Status push(std::uint32_t worker, const PushEntryRequest& push, std::span<const std::byte> buffers);
  Status close(std::uint32_t worker, const CloseRequest& verdict);
  // A chunk was lost, and begins again with these lanes (an AppliedSet): others are taken out of the book, so that they
  // are computed again. Chunks that have them already leave it at that. A lane that was leased before is kStale from
  // now on: its worker may have been told that the chunk has it. Throws kDamaged.
  Status reopen(std::span<const std::byte> lanes);

  std::span<const std::byte> buffers() const { return buffers_; }
  std::uint64_t version() const { return counts_.updates; }
  std::uint64_t floor() const { return done_.floor(); }
  const BookCounts& counts() const { return counts_; }

  std::vector<std::byte> read() const;
  void write(std::span<const std::byte> state);
  // The state of a job that stands before `step`.
  static std::vector<std::byte> first_state(const ServerPlan& plan, std::uint64_t step,
                                            std::span<const std::byte> buffers);

  // What was decided since the last call, one JSON object a line; nothing unless plan.event_log.
  std::string take_events();

 private:
  struct Kept {
    LaneEntry entry;
    std::vector<std::byte> buffers;
  };
  struct Closed {
    StepResult result;
    std::uint64_t seen = 0;  // mask: lanes that came, in time or late
  };
  struct Agreed {
    std::uint64_t step = 0;  // of this and later ones
    std::uint64_t stop = 0;  // 1: stop. Not a bool: not every byte of a state would be one
    std::uint64_t change = 0;
    Wishes wishes() const { return {stop != 0, change}; }
  };

  LeaseReply answer(Grant grant) const;
  std::optional<LeaseReply> lease_lane(std::uint32_t worker, const LeaseRequest& request);
  std::optional<LeaseReply> commit_step(std::uint32_t worker, const LeaseRequest& request);
  std::optional<std::uint32_t> free_lane(const LeaseRequest& request) const;
  bool is_free(std::uint64_t step, std::uint32_t lane) const;
  bool may_begin(std::uint64_t step) const;
  std::uint32_t needed(std::uint32_t lanes) const;
  void note_wishes(const Wishes& wishes);
  StepResult with_wishes(StepResult result, std::uint64_t step) const;
  Status keep(std::uint32_t worker, const PushEntryRequest& push, std::span<const std::byte> buffers);
  Status late(std::uint32_t worker, const PushEntryRequest& push);
  void event(const char* what, std::uint32_t worker, std::uint64_t step, std::uint32_t lane, std::uint64_t number);

  // Constant after construction.
  const ServerPlan& plan_;
  // The state.
  AppliedSet done_;
  AppliedSet once_;  // lanes that were in it when some were taken out
  std::vector<std::byte> buffers_;
  BookCounts counts_;
  StepResult total_;
  Agreed agreed_;
  // Of the synchronous step in work: the one at the floor.
  std::map<std::uint32_t, Kept> kept_;
  std::uint64_t accepted_ = 0;  // mask: the lanes that count, once it is known
  std::map<std::uint64_t, Closed> closed_;
  // Not part of it.
  std::uint64_t generation_ = 0;                                             // of the workers
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> leases_;  // step and lane: worker
  bool leases_only_ = false;                                                 // lanes that are not leased are refused
  std::optional<std::uint32_t> finishing_;                                   // the worker that ends the step
  std::uint64_t highest_ = 0;                                                // step that a worker has asked for
  std::string events_;
};

}  // namespace muster::strategies
