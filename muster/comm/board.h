// The board of a host: shared memory where ranks see each other, wait for each other, and learn of failures.
//
// Every rank has a seat on it: its process, a heartbeat, and a doorbell. What ranks wait for are words that the user of
// the board keeps elsewhere in the same shared memory (rounds of a collective, lanes of a step). The rule:
//   the waited-for rank   stores its word (seq_cst), then calls announce();
//   the waiting rank      calls wait(peer, ready, ...), where ready() loads that word (seq_cst).
// A wait spins briefly, gives its core away a few times, and then sleeps on its own doorbell (a futex); announce()
// rings only those who sleep for this rank. Both sides are sequentially consistent, so no ring is missed. A sleeper
// looks around every 50 ms: a peer whose process is gone is a failure at once, whoever finds it first.
//
// A failure is sticky and seen by everyone: the first rank to report one wins, all sleepers are woken, and each wait
// throws it. It belongs to a generation; a board whose members were changed (set_generation) leaves older failures
// behind. There are no locks, so a rank may die at any instruction without leaving anything held.
//
// Thread safety: one waiting thread per rank; fail(), beat() and the observers' methods may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/process.h"

namespace muster::comm {

// Who is waited for when it may be any rank.
constexpr int kAnyRank = -1;

// What a rank is at, for those who watch it.
enum class Activity : std::uint8_t {
  kNothing,
  kLoading,     // waits for samples
  kComputing,   // a lane
  kWaiting,     // for the other ranks, in a commit or a collective
  kEvaluating,  // a batch
  kSaving,
  kDone,  // its work is done, and it is about to end in good order
};
std::string_view to_string(Activity activity);

struct Failure {
  ErrorKind kind = ErrorKind::kPeerLost;
  int rank = 0;  // the rank that failed
  std::string reason;
};

class Board {
 public:
  static constexpr int kMaxSeats = 64;

  // Bytes that a board of that many ranks takes. All zero is a valid empty board.
  static std::size_t bytes(int ranks);

  // A view of the board in `memory` (64-byte aligned, bytes(ranks) long, which must outlive it). `self` is this rank's
  // seat, or kAnyRank for an observer, which cannot wait.
  Board(std::span<std::byte> memory, int ranks, int self);

  int ranks() const { return ranks_; }
  int self() const { return self_; }

  // Takes this rank's seat: from now on others can tell whether its process lives.
  void sit();
  // Leaves it: who waits for this rank from now on gets kPeerLost at once.
  void leave();
  bool seated(int rank) const;
  // The process in a seat, if somebody sits there.
  std::optional<ProcessId> occupant(int rank) const;

  // Empties the seat of a process that is dead, so that nobody who waits for the next one takes that for lost. Does
  // nothing if somebody else sits there by now. REQUIRES: the death was confirmed.
  void vacate(int rank, const ProcessId& dead);

  // A sign of life, written by the owner and read by observers; nanoseconds of the monotonic clock, 0 before the first.
  void beat();
  std::chrono::nanoseconds last_beat(int rank) const;

  // What this rank begins now. Written by the owner's working thread, unlike beats: a process that lives and does not
  // get on shows by it.
  struct Doing {
    Activity activity = Activity::kNothing;
    std::chrono::nanoseconds since{};  // of the monotonic clock
  };
  void begin(Activity activity);
  Doing doing(int rank) const;

  // Tells those who wait for this rank (or for any) that something changed. REQUIRES: the change was stored seq_cst.
  void announce();

  // Returns when ready() is true. ready() may have effects; it is called often. `doing` is called only for errors and
  // completes the sentence "rank 2 has not ..." (for kAnyRank "no rank has ..."): "come to barrier #3". Announcements
  // of `peer` end the sleep, or, with kAnyRank for `woken_by`, everybody's. Throws the failure of this generation,
  // kPeerLost when the process of `peer` is gone (which becomes the failure of all), or kTimeout.
  template <typename Ready>
  void wait(int peer, const Ready& ready, const Deadline& deadline, const std::function<std::string()>& doing) {
    wait(peer, peer, ready, deadline, doing);
  }
  template <typename Ready>
  void wait(int peer, int woken_by, const Ready& ready, const Deadline& deadline,
            const std::function<std::string()>& doing) {
    for (int spin = 0; spin < spins_; ++spin) {
      if (ready()) return;
      pause();
    }
    wait_slowly(peer, woken_by, ready, deadline, doing);
  }

  // Records a failure and wakes everyone. The first of a generation wins; false if there was one.
  bool fail(int rank, ErrorKind kind, std::string_view reason);
  std::optional<Failure> failure() const;
  // As an Error; does nothing when there is none.
  void throw_if_failed() const {
    if (failed()) throw_failure();
  }
  bool failed() const;

  // Failures of other generations than this one are not seen and not made. Starts at 0.
  void set_generation(std::uint32_t generation) { generation_ = generation; }
  // Whose deaths end a wait for any rank (bit r: rank r); at first everybody's. One who only asked to be let in may go.
  void set_members(std::uint64_t members) { members_ = members; }
  // Wakes every sleeper, so that it looks at its condition again: after a new generation, for example.
  void ring_all();
  // Called by this rank's waits about every 50 ms; what it throws ends the wait.
  void set_interruption(std::function<void()> check) { interruption_ = std::move(check); }
  const std::function<void()>& interruption() const { return interruption_; }

 private:
  struct Seat;
  struct Header;

  static void pause();
  void wait_slowly(int peer, int woken_by, const std::function<bool()>& ready, const Deadline& deadline,
                   const std::function<std::string()>& doing);
  void sleep(int woken_by, const std::function<bool()>& ready, std::chrono::nanoseconds longest);
  // Why a rank that is waited for will never come; nothing if it may.
  std::optional<Failure> find_lost(int peer) const;
  [[noreturn]] void throw_timeout(int peer, const std::function<std::string()>& doing) const;
  [[noreturn]] void throw_failure() const;
  void ring(Seat& seat);
  std::string describe(int rank) const;

  Header* header_;
  Seat* seats_;
  int ranks_;
  int self_;
  int spins_;
  int yields_;
  std::uint32_t generation_ = 0;
  std::uint64_t members_ = ~std::uint64_t{0};
  std::function<void()> interruption_;
};

}  // namespace muster::comm
