// The host arena: training state that all workers of a host share, and that any of them may leave by kill -9 at any
// instruction without harm to the committed version.
//
// It holds two buffers for versions (the committed one, and the one that the running step writes), one area per lane,
// and a control page of atomic words. What is inside versions and areas is the strategy's business. A step, for one
// rank:
//   1. claim() or claim_next() a lane, start() it, write lane(i), finish() it; until none is left
//   2. wait_all_done(), then read all lanes and next_version(); write the slice that this rank owns
//   3. commit(): arrives, waits for the other members, and the version is flipped by one compare-and-swap
// A death: whoever confirmed it calls begin_generation(); members then get kPeerLost out of their waits, call enter(),
// and go on with the same step, whose finished lanes are kept. Layout, protocol and the crash argument: docs/arena.md.
//
// Thread safety: one thread per rank's Arena; committed(), pin() and fail() may be called from any thread.
// Errors: kPeerLost (a member died, or a new generation began) and kTimeout name rank, pid, lane and step.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/deadline.h"
#include "muster/comm/arena_words.h"
#include "muster/comm/board.h"
#include "muster/comm/region.h"
#include "muster/comm/shared_note.h"
#include "muster/comm/version_pins.h"

namespace muster::comm {

struct ArenaOptions {
  int ranks = 1;  // at most 64; how many may ever be members at once
  int lanes = 0;  // at most 4096; none, and no bytes: members, signs of life and the note alone
  std::size_t version_bytes = 0;
  std::size_t lane_bytes = 0;
  std::uint64_t nonce = 0;  // of the job: an arena of another job is refused
  std::uint64_t step = 0;   // the step that version 0's buffer is filled for: not 0 when a run is resumed
};

// The two ways a step can end.
enum class Outcome {
  kFlip,  // the next version becomes the committed one
  kKeep,  // the step is skipped: it counts, and the committed version stays where it is
};

class Arena {
 public:
  static constexpr int kMostLanes = 4096;
  static constexpr int kMostPhase = 253;  // phases of wait_arrived; commit() uses those above

  // Bytes of a region for such an arena. Throws kInvalidInput.
  static std::size_t bytes(const ArenaOptions& options);
  // Makes an arena in a new region. It has no members yet: fill version(0), then begin_generation(1, ...).
  static Arena create(std::shared_ptr<const SharedRegion> region, const ArenaOptions& options);
  // Somebody else's. `rank` is this process's, or kAnyRank for an observer (parent, checkpoint writer). Throws
  // kMismatch (no arena, another layout, another job, closed) or kDamaged (truncated), with the reason.
  static Arena attach(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank);

  const ArenaOptions& options() const { return options_; }
  const std::shared_ptr<const SharedRegion>& region() const { return region_; }
  Board& board() { return board_; }  // heartbeats and seats
  const Board& board() const { return board_; }
  void beat() { board_.beat(); }  // a sign of life of this rank; from any thread
  CommitWord committed() const;
  std::uint64_t step() const { return step_; }  // that this rank works on
  std::uint64_t generation() const { return generation_; }
  std::uint64_t members() const { return members_; }  // bit r: rank r; of generation()

  // The committed version is in version(committed().buffer). Only next_version() may be written, once it is
  // returned; lanes only between start() and finish().
  std::span<std::byte> version(std::uint64_t buffer) const;
  std::span<std::byte> lane(int lane) const;
  ReadOnlyMapping map_version_read_only(std::uint64_t buffer) const;

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
  // end with kPeerLost. Unfinished claims of ranks that are no longer members are free again, finished lanes are kept.
  // Calling it again with the same arguments completes what a caller that died has begun.
  // REQUIRES: every process that is no longer a member, or whose rank another process takes, is dead (confirmed).
  void begin_generation(std::uint64_t generation, std::uint64_t members);
  // Ends all waits of this generation with kPeerLost: for a parent that has seen `rank` die.
  void fail(int rank, std::string_view reason);
  // No one attaches or enters any more.
  void close();
  // The step that version 0's buffer is filled for, once more. REQUIRES: no generation has begun.
  void set_first_step(std::uint64_t step);
  // The versions are not the job's: of a host that joins one, until it has taken up the state of another (adopt,
  // settle). REQUIRES: no generation has begun.
  void mark_fresh();
  bool fresh() const { return committed().fresh != 0; }

  // Takes this rank's seat, so that whoever decides on members sees that it is ready to be one.
  void ask_to_enter() { board_.sit(); }
  // Waits for a later generation than this rank was in, and enters it as soon as this rank is a member. Throws
  // kTimeout when no such generation begins, kMismatch when the arena is closed.
  void enter_next(const Deadline& deadline);
  // Throws kPeerLost when a later generation than this rank's has begun. Safe from any thread.
  void throw_if_superseded() const;

  // --- A rank's own work. REQUIRES, of all that follow: enter() has returned.
  // Becomes a member of `generation` as soon as that has begun; once a generation. What this rank claimed before and
  // did not finish is free. Throws kMismatch (a later generation has begun, this rank is no member or has entered
  // before, the arena is closed) or kTimeout. REQUIRES: this rank is not writing anywhere in the arena.
  void enter(std::uint64_t generation, const Deadline& deadline);

  // Each is true if this rank now has what it asked for. All throw kPeerLost once a new generation has begun, but
  // finish(), which keeps the work.
  bool claim(int lane);
  std::optional<int> claim_next(int lanes);  // the first free one of lanes 0 .. lanes-1
  bool take_back(int lane);                  // another rank's claim that has not been started
  bool start(int lane);                      // false: the claim was taken back
  void release(int lane);                    // this rank's claim, unstarted or broken off, is free again
  void finish(int lane);
  LaneWord lane_state(int lane) const;

  // Returns when lanes first .. last-1 are done.
  void wait_all_done(int first, int last, const Deadline& deadline);
  void wait_all_done(int lanes, const Deadline& deadline) { wait_all_done(0, lanes, deadline); }
  // The same of lanes 0 .. lanes-1, but false as soon as one of them is free.
  bool wait_done_or_free(int lanes, const Deadline& deadline);

  // Barriers inside a step: phases count up from 1. Waiting for a phase means for all members to have arrived there.
  void arrive(int phase);
  void wait_arrived(int phase, const Deadline& deadline);

  // The buffer for the next version, when no pin is left on the old version in it and all members have entered this
  // generation. Its bytes are those of two flips ago.
  std::span<std::byte> next_version(const Deadline& deadline);

  // Ends the step: arrives, waits for all members, flips. Throws kMismatch if members want different outcomes,
  // kUnsupported when the step numbers are used up. After kPeerLost the step may or may not be committed: enter()
  // tells.
  void commit(Outcome outcome, const Deadline& deadline);

  // Instead of steps, where another host is ahead: every member has written its part of that host's state into
  // next_version(), which becomes the committed one, as that of `step`; arrives and waits as commit() does. Killed in
  // the middle of it, the host stands where it stood. A fresh host is fresh until it is settled.
  // REQUIRES: all members call it, with the same step, none below step(), once, after entering a generation and before
  // any lane of it is claimed.
  void adopt(std::uint64_t step, const Deadline& deadline);
  // The host is fresh no more. One member calls it, or several. REQUIRES: all members have adopted a state in this
  // generation, and have written into next_version() what both versions must have in common.
  void settle();

  // --- A text beside the state (shared_note.h). One member writes it, always the same one of a generation.
  void write_note(std::string_view text) { shared_note().write(text); }
  std::string note() const { return shared_note().read(); }  // empty: none was written

  // --- Readers, also observers.
  // Holds the version that is committed now. Throws kResource when 16 pins are held.
  VersionPin pin() const;

 private:
  struct Control;
  enum class AskedFor { kAllDone, kDoneOrFree };

  Arena(std::shared_ptr<const SharedRegion> region, const ArenaOptions& options, int rank);
  Control& control() const;
  std::atomic<std::uint64_t>& lane_word(int lane) const;
  std::atomic<std::uint64_t>& arrival_word(int rank) const;
  std::atomic<std::uint64_t>& adoption_word(int rank) const;
  SharedNote shared_note() const;
  bool superseded() const;  // a new generation has begun
  bool change_lane(int lane, LaneWord from, LaneWord to);
  bool wait_lanes(int first, int last, AskedFor asked_for, const Deadline& deadline);
  void wait_member(int rank, int phase, const Deadline& deadline);
  VersionPins pins() const;
  std::uint64_t read_members(std::uint64_t generation) const;
  void publish_members(std::uint64_t current, std::uint64_t generation, std::uint64_t members);
  void free_lanes_of_others(std::uint64_t members);
  void vacate_seats_of_the_dead();

  // Constant after construction.
  std::shared_ptr<const SharedRegion> region_;
  ArenaOptions options_;
  int rank_;
  Board observer_;  // copied by those who may be called from any thread
  // This rank's thread only.
  Board board_;
  std::uint64_t generation_ = 0;
  std::uint64_t members_ = 0;
  std::uint64_t step_ = 0;
  bool all_entered_ = false;
};

}  // namespace muster::comm
