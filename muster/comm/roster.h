// The roster of a host: which of its workers train now, in memory that all of them share and any of them may leave by
// kill -9 at any instruction.
//
// Members change in generations. Somebody decides on them (a supervisor, or the workers where it is gone), one at a
// time, and begins a generation; members then get kPeerLost out of their waits and enter it. Beside that: seats with
// signs of life and doorbells (board.h), who is in charge, and a note. A strategy whose workers share more than that
// has it behind the roster, in the same region: arena.h. Layout, protocol and what a death can do: docs/arena.md.
//
// Thread safety: one thread per rank's Roster; committed(), beat(), fail(), throw_if_superseded() and the note's reader
// from any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/deadline.h"
#include "muster/comm/arena_words.h"
#include "muster/comm/board.h"
#include "muster/comm/region.h"
#include "muster/comm/shared_note.h"

namespace muster::comm {

struct RosterOptions {
  int ranks = 1;            // at most 64; how many may ever be members at once
  std::uint64_t nonce = 0;  // of the job: a roster of another job is refused

  // Whether those who find this roster are content with it who want `wanted`.
  bool fits(const RosterOptions& wanted) const { return ranks == wanted.ranks; }
};

class Roster {
 public:
  using Options = RosterOptions;

  // Bytes of a region for a roster alone, and where in a larger one the rest begins: whole pages. Throws kInvalidInput.
  static std::size_t bytes(const RosterOptions& options);
  // Makes a roster in a new region. It has no members yet.
  static Roster create(std::shared_ptr<const SharedRegion> region, const RosterOptions& options);
  // Somebody else's. `rank` is this process's, or kAnyRank for an observer (parent, checkpoint writer). Throws
  // kMismatch (no roster, another layout, another job, closed) or kDamaged (truncated), with the reason.
  static Roster attach(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank);

  Roster(Roster&&) = default;
  virtual ~Roster() = default;

  const RosterOptions& options() const { return options_; }
  std::uint64_t nonce() const { return options_.nonce; }
  const std::shared_ptr<const SharedRegion>& region() const { return region_; }
  Board& board() { return board_; }  // heartbeats and seats
  const Board& board() const { return board_; }
  void beat() { board_.beat(); }  // a sign of life of this rank; from any thread
  // The present generation; and the step and buffer that an arena's members have committed, else 0.
  CommitWord committed() const;
  std::uint64_t generation() const { return generation_; }  // that this rank is in
  std::uint64_t members() const { return members_; }        // bit r: rank r; of generation()

  // --- Members. Called by whoever decides on them, one at a time; an observer may.
  // Who decides on members: a process that takes charge keeps it until it dies or leaves it. take_charge() is false
  // when another living process has it.
  bool take_charge(const ProcessId& self);
  void leave_charge(const ProcessId& self);
  // Whether somebody has been in charge and nobody is any more.
  bool abandoned() const;
  // Of the present generation; for observers.
  std::uint64_t present_members() const { return read_members(committed().generation); }
  // Starts `generation` (above the present one) with the ranks of bit mask `members`; waits and commits of the old one
  // end with kPeerLost. Calling it again with the same arguments completes what a caller that died has begun.
  // REQUIRES: every process that is no longer a member, or whose rank another process takes, is dead (confirmed).
  void begin_generation(std::uint64_t generation, std::uint64_t members);
  // Ends all waits of this generation with kPeerLost: for a parent that has seen `rank` die.
  void fail(int rank, std::string_view reason);
  // No one attaches or enters any more.
  void close();

  // Takes this rank's seat, so that whoever decides on members sees that it is ready to be one.
  void ask_to_enter() { board_.sit(); }
  // Becomes a member of `generation` as soon as that has begun; once a generation. Throws kMismatch (a later generation
  // has begun, this rank is no member or has entered before, the roster is closed) or kTimeout. REQUIRES: this rank is
  // not writing anywhere behind the roster.
  void enter(std::uint64_t generation, const Deadline& deadline);
  // Waits for a later generation than this rank was in, and enters it as soon as this rank is a member. Throws
  // kTimeout when no such generation begins, kMismatch when the roster is closed.
  void enter_next(const Deadline& deadline);
  // Throws kPeerLost when a later generation than this rank's has begun. Safe from any thread.
  void throw_if_superseded() const;

  // --- A text for those who watch (shared_note.h). One member writes it, always the same one of a generation.
  void write_note(std::string_view text) { shared_note().write(text); }
  std::string note() const { return shared_note().read(); }  // empty: none was written

 protected:
  Roster(std::shared_ptr<const SharedRegion> region, const RosterOptions& options, int rank);

  // The room for a roster in a new region of which `needed` bytes are used, with `word` to begin with; nobody can
  // attach to it before publish().
  static void prepare(const SharedRegion& region, const RosterOptions& options, std::size_t needed, CommitWord word);
  static void publish(const SharedRegion& region);
  static std::size_t used_bytes(const SharedRegion& region);  // `needed`, of one that is there
  // Called in enter(): generation() and members() are the new ones, and the others do not know yet that this rank has
  // come.
  virtual void take_up(const CommitWord& /*now*/) {}

  int rank() const { return rank_; }
  const Board& observer() const { return observer_; }  // copied by those who may be called from any thread
  std::atomic<std::uint64_t>& commit_word() const;
  bool has_entered(int rank) const;  // the generation that this rank is in
  bool superseded() const { return committed().generation != generation_; }

 private:
  struct Control;

  Control& control() const;
  std::atomic<std::uint64_t>& entered_word(int rank) const;
  SharedNote shared_note() const;
  std::uint64_t read_members(std::uint64_t generation) const;
  void publish_members(std::uint64_t current, std::uint64_t generation, std::uint64_t members);
  void vacate_seats_of_the_dead();

  // Constant after construction.
  std::shared_ptr<const SharedRegion> region_;
  RosterOptions options_;
  int rank_;
  Board observer_;
  // This rank's thread only.
  Board board_;
  std::uint64_t generation_ = 0;
  std::uint64_t members_ = 0;
};

}  // namespace muster::comm
