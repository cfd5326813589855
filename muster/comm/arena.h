// The host arena: training state that all workers of a host share, and that any of them may leave by kill -9 at any
// instruction without harm to the committed version.
//
// It is a roster (roster.h: who trains) and behind it two buffers for versions (the committed one, and the one that the
// running step writes), one area per lane, and the words by which lanes are claimed and steps committed. What is inside
// versions and areas is the strategy's business. A step, for one rank:
//   1. claim() or claim_next() a lane, start() it, write lane(i), finish() it; until none is left
//   2. wait_all_done(), then read all lanes and next_version(); write the slice that this rank owns
//   3. commit(): arrives, waits for the other members, and the version is flipped by one compare-and-swap
// A death: whoever confirmed it calls begin_generation(); members then get kPeerLost out of their waits, call enter(),
// and go on with the same step, whose finished lanes are kept. Layout, protocol and the crash argument: docs/arena.md.
//
// Thread safety: that of the roster; pin() may be called from any thread.
// Errors: kPeerLost (a member died, or a new generation began) and kTimeout name rank, pid, lane and step.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/base/deadline.h"
#include "muster/comm/arena_words.h"
#include "muster/comm/region.h"
#include "muster/comm/roster.h"
#include "muster/comm/version_pins.h"

namespace muster::comm {

struct ArenaOptions {
  int ranks = 1;  // at most 64; how many may ever be members at once
  int lanes = 1;  // at most 4096
  std::size_t version_bytes = 0;
  std::size_t lane_bytes = 0;
  std::uint64_t nonce = 0;  // of the job: an arena of another job is refused
  std::uint64_t step = 0;   // the step that version 0's buffer is filled for: not 0 when a run is resumed

  // Whether those who find this arena are content with it who want `wanted`.
  bool fits(const ArenaOptions& wanted) const {
    return ranks == wanted.ranks && lanes == wanted.lanes && version_bytes == wanted.version_bytes &&
           lane_bytes == wanted.lane_bytes;
  }
};

// The two ways a step can end.
enum class Outcome {
  kFlip,  // the next version becomes the committed one
  kKeep,  // the step is skipped: it counts, and the committed version stays where it is
};

class Arena : public Roster {
 public:
  using Options = ArenaOptions;
  static constexpr int kMostLanes = 4096;
  static constexpr int kMostPhase = 253;  // phases of wait_arrived; commit() uses those above

  // Bytes of a region for such an arena. Throws kInvalidInput.
  static std::size_t bytes(const ArenaOptions& options);
  // Makes an arena in a new region. It has no members yet: fill version(0), then begin_generation(1, ...).
  static Arena create(std::shared_ptr<const SharedRegion> region, const ArenaOptions& options);
  // Somebody else's. `rank` is this process's, or kAnyRank for an observer (parent, checkpoint writer). Throws
  // kMismatch (no arena, another layout, another job, closed) or kDamaged (truncated), with the reason.
  static Arena attach(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank);
  // The same, if what is there is an arena and not a roster alone.
  static std::optional<Arena> find(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank);

  const ArenaOptions& options() const { return options_; }
  std::uint64_t step() const { return step_; }  // that this rank works on

  // The committed version is in version(committed().buffer). Only next_version() may be written, once it is
  // returned; lanes only between start() and finish().
  std::span<std::byte> version(std::uint64_t buffer) const;
  std::span<std::byte> lane(int lane) const;
  ReadOnlyMapping map_version_read_only(std::uint64_t buffer) const;

  // The step that version 0's buffer is filled for, once more. REQUIRES: no generation has begun.
  void set_first_step(std::uint64_t step);
  // The versions are not the job's: of a host that joins one, until it has taken up the state of another (adopt,
  // settle). REQUIRES: no generation has begun.
  void mark_fresh();
  bool fresh() const { return committed().fresh != 0; }

  // --- A rank's own work. REQUIRES, of all that follow: enter() has returned. What this rank, and those who are no
  // members any more, had claimed before and not finished is free then; finished lanes are kept.

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

  // --- Readers, also observers.
  // Holds the version that is committed now. Throws kResource when 16 pins are held.
  VersionPin pin() const;

 private:
  struct Control;
  enum class AskedFor { kAllDone, kDoneOrFree };

  Arena(Roster roster, const ArenaOptions& options);
  void take_up(const CommitWord& now) override;
  Control& control() const;
  std::atomic<std::uint64_t>& lane_word(int lane) const;
  std::atomic<std::uint64_t>& arrival_word(int rank) const;
  std::atomic<std::uint64_t>& adoption_word(int rank) const;
  bool change_lane(int lane, LaneWord from, LaneWord to);
  bool wait_lanes(int first, int last, AskedFor asked_for, const Deadline& deadline);
  void wait_entered(const Deadline& deadline);
  void wait_member(int other, int phase, const Deadline& deadline);
  VersionPins pins() const;

  ArenaOptions options_;  // constant after construction, but for set_first_step()
  // This rank's thread only.
  std::uint64_t step_ = 0;
  bool all_entered_ = false;
};

}  // namespace muster::comm
