// The slow path is the interesting one: who goes to sleep says for whom first and looks again, who announces looks for
// sleepers afterwards. Turning either order round would lose a ring. A failure is one word, so the first one wins
// everywhere.
#include "muster/comm/board.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/cores.h"

namespace muster::comm {
namespace {

constexpr std::size_t kReasonBytes = 432;
// How long a sleeper trusts that a lost peer will be reported by somebody else.
constexpr std::chrono::milliseconds kLookAround{50};
// About 20 us of waiting with a core each: longer than a collective's skew, shorter than a sleep and a wake.
constexpr int kSpins = 1000;
// With more ranks than cores spinning keeps the awaited rank from running; giving the core away lets it.
constexpr int kCrowdedSpins = 20;
constexpr int kYields = 4;
constexpr int kCrowdedYields = 200;
constexpr std::uint32_t kAwake = 0;
constexpr std::uint32_t kForAnyone = UINT32_MAX;

// A failure in one word: generation, kind and rank, so that claiming it is one compare-and-swap.
std::uint64_t pack(std::uint32_t generation, ErrorKind kind, int rank) {
  return (std::uint64_t{generation} << 32) | (std::uint64_t{static_cast<std::uint8_t>(kind)} << 16) |
         (static_cast<std::uint64_t>(rank) + 1);
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock().now().time_since_epoch()).count();
}

}  // namespace

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared memory needs atomics without locks");

struct alignas(64) Board::Header {
  std::atomic<std::uint64_t> failure;       // pack(), 0: none
  std::atomic<std::uint64_t> reason_ready;  // the failure word whose reason stands below
  std::uint32_t reason_length;
  std::array<char, kReasonBytes> reason;
};

struct alignas(64) Board::Seat {
  // Who sleeps here, for whom (rank + 1), and the word it sleeps on: written by the owner and by those who wake it.
  std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> sleeping_for;
  // Written by the owner only, on a line of their own.
  alignas(64) std::atomic<std::int32_t> pid;
  std::atomic<std::uint32_t> left;
  std::atomic<std::uint64_t> start_time;
  std::atomic<std::int64_t> beat_ns;
  std::atomic<std::uint64_t> doing;  // since, in nanoseconds: 56 | activity: 8
};

std::size_t Board::bytes(int ranks) {
  return sizeof(Header) + sizeof(Seat) * static_cast<std::size_t>(ranks);
}

Board::Board(std::span<std::byte> memory, int ranks, int self)
    : header_(reinterpret_cast<Header*>(memory.data())),
      seats_(reinterpret_cast<Seat*>(memory.data() + sizeof(Header))),
      ranks_(ranks),
      self_(self) {
  MUSTER_CHECK(ranks >= 1 && ranks <= kMaxSeats && self >= kAnyRank && self < ranks, "no such seat");
  MUSTER_CHECK(memory.size() >= bytes(ranks), "a board needs its bytes");
  MUSTER_CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0, "a board is aligned to cache lines");
  const bool crowded = ranks > usable_cores().usable;
  spins_ = crowded ? kCrowdedSpins : kSpins;
  yields_ = crowded ? kCrowdedYields : kYields;
}

void Board::sit() {
  const ProcessId process = this_process();
  Seat& seat = seats_[self_];
  seat.left.store(0);
  seat.start_time.store(process.start_time);
  seat.beat_ns.store(monotonic_ns());
  // What the one before was at is not this one's: whoever watches would take it for hung.
  begin(Activity::kNothing);
  seat.pid.store(process.pid);
  announce();
}

void Board::leave() {
  seats_[self_].left.store(1);
  ring_all();
}

bool Board::seated(int rank) const {
  return seats_[rank].pid.load() != 0;
}

std::optional<ProcessId> Board::occupant(int rank) const {
  const std::int32_t pid = seats_[rank].pid.load();
  if (pid == 0) return std::nullopt;
  return ProcessId{pid, seats_[rank].start_time.load()};
}

void Board::vacate(int rank, const ProcessId& dead) {
  std::int32_t pid = dead.pid;
  seats_[rank].pid.compare_exchange_strong(pid, 0);
}

void Board::beat() {
  seats_[self_].beat_ns.store(monotonic_ns(), std::memory_order_relaxed);
}

std::chrono::nanoseconds Board::last_beat(int rank) const {
  return std::chrono::nanoseconds(seats_[rank].beat_ns.load(std::memory_order_relaxed));
}

std::string_view to_string(Activity activity) {
  switch (activity) {
    case Activity::kNothing:
      return "";
    case Activity::kLoading:
      return "waits for samples";
    case Activity::kComputing:
      return "computes";
    case Activity::kWaiting:
      return "waits for the others";
    case Activity::kEvaluating:
      return "evaluates";
    case Activity::kDone:
      return "is done";
    case Activity::kSaving:
      return "saves";
  }
  return "";
}

// Enough for two years without a restart of the machine.
constexpr int kActivityBits = 8;

void Board::begin(Activity activity) {
  seats_[self_].doing.store(
      static_cast<std::uint64_t>(monotonic_ns()) << kActivityBits | static_cast<std::uint64_t>(activity),
      std::memory_order_relaxed);
}

Board::Doing Board::doing(int rank) const {
  const std::uint64_t word = seats_[rank].doing.load(std::memory_order_relaxed);
  return {static_cast<Activity>(word & 0xff), std::chrono::nanoseconds(word >> kActivityBits)};
}

void Board::ring(Seat& seat) {
  seat.doorbell.fetch_add(1);
  futex(seat.doorbell, FUTEX_WAKE, INT_MAX, nullptr);
}

void Board::announce() {
  const auto self = static_cast<std::uint32_t>(self_ + 1);
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::uint32_t awaited = seats_[rank].sleeping_for.load();
    if (awaited == self || awaited == kForAnyone) ring(seats_[rank]);
  }
}

void Board::ring_all() {
  for (int rank = 0; rank < ranks_; ++rank)
    ring(seats_[rank]);
}

void Board::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void Board::wait_slowly(int peer, int woken_by, const std::function<bool()>& ready, const Deadline& deadline,
                        const std::function<std::string()>& doing) {
  MUSTER_CHECK(self_ >= 0, "an observer cannot wait");
  throw_if_failed();
  for (int turn = 0; turn < yields_; ++turn) {
    ::sched_yield();
    if (ready()) return;
  }
  for (;;) {
    throw_if_failed();
    const std::chrono::nanoseconds remaining = deadline.remaining();
    if (remaining.count() > 0) sleep(woken_by, ready, std::min<std::chrono::nanoseconds>(remaining, kLookAround));
    const std::optional<Failure> lost = find_lost(peer);
    // After the look: a rank may have done what it had to and then left.
    if (ready()) return;
    if (lost) fail(lost->rank, lost->kind, lost->reason + " and had not " + doing());
    throw_if_failed();
    if (interruption_) interruption_();
    if (remaining.count() <= 0) throw_timeout(peer, doing);
  }
}

void Board::sleep(int woken_by, const std::function<bool()>& ready, std::chrono::nanoseconds longest) {
  Seat& seat = seats_[self_];
  const std::uint32_t bell = seat.doorbell.load();
  seat.sleeping_for.store(woken_by == kAnyRank ? kForAnyone : static_cast<std::uint32_t>(woken_by + 1));
  // Looked at again after the store: an announcement before it would not have rung.
  if (!ready() && !failed()) {
    const timespec timeout{static_cast<time_t>(longest.count() / 1000000000), longest.count() % 1000000000};
    futex(seat.doorbell, FUTEX_WAIT, bell, &timeout);
  }
  seat.sleeping_for.store(kAwake);
}

std::optional<Failure> Board::find_lost(int peer) const {
  const int first = peer == kAnyRank ? 0 : peer;
  const int last = peer == kAnyRank ? ranks_ - 1 : peer;
  for (int rank = first; rank <= last; ++rank) {
    const std::optional<ProcessId> process = occupant(rank);
    if (rank == self_ || !process) continue;
    if (peer == kAnyRank && (members_ >> rank & 1) == 0) continue;
    const bool left = seats_[rank].left.load() != 0;
    // Of all ranks some may leave early; one that is waited for may not.
    if (left && peer != kAnyRank) return Failure{ErrorKind::kPeerLost, rank, fmt::format("rank {} left", rank)};
    if (!left && state_of(*process) == ProcessState::kGone)
      return Failure{ErrorKind::kPeerLost, rank, fmt::format("rank {} (pid {}) died", rank, process->pid)};
  }
  return std::nullopt;
}

std::string Board::describe(int rank) const {
  const std::optional<ProcessId> process = occupant(rank);
  if (!process) return fmt::format("rank {} (which never joined)", rank);
  return fmt::format("rank {} (pid {}, {})", rank, process->pid, to_string(state_of(*process)));
}

void Board::throw_timeout(int peer, const std::function<std::string()>& doing) const {
  const std::string who = peer == kAnyRank ? "no rank has" : describe(peer) + " has not";
  throw Error(ErrorKind::kTimeout, fmt::format("the deadline passed: {} {}", who, doing()),
              fmt::format("rank {}", self_));
}

bool Board::fail(int rank, ErrorKind kind, std::string_view reason) {
  const std::uint64_t mine = pack(generation_, kind, rank);
  std::uint64_t seen = header_->failure.load();
  do {
    // One of this generation stands; one of a later generation means that this report is out of date.
    if (seen != 0 && (seen >> 32) >= generation_) return false;
  } while (!header_->failure.compare_exchange_strong(seen, mine));
  const std::size_t length = std::min(reason.size(), kReasonBytes);
  std::memcpy(header_->reason.data(), reason.data(), length);
  header_->reason_length = static_cast<std::uint32_t>(length);
  header_->reason_ready.store(mine);
  ring_all();
  return true;
}

bool Board::failed() const {
  const std::uint64_t word = header_->failure.load();
  return word != 0 && (word >> 32) == generation_;
}

std::optional<Failure> Board::failure() const {
  const std::uint64_t word = header_->failure.load();
  if (word == 0 || (word >> 32) != generation_) return std::nullopt;
  Failure failure{static_cast<ErrorKind>((word >> 16) & 0xffU), static_cast<int>(word & 0xffffU) - 1, {}};
  // The reason follows within a few instructions, unless its writer was killed there or is not scheduled.
  for (int turn = 0; turn < 1000 && header_->reason_ready.load() != word; ++turn)
    ::sched_yield();
  if (header_->reason_ready.load() == word)
    failure.reason.assign(header_->reason.data(), std::min<std::size_t>(header_->reason_length, kReasonBytes));
  else
    failure.reason = fmt::format("rank {} failed; the process that reported it was itself killed", failure.rank);
  return failure;
}

void Board::throw_failure() const {
  const std::optional<Failure> failure = this->failure();
  // A failure of a later generation may have taken its place since the caller looked.
  if (!failure)
    throw Error(ErrorKind::kPeerLost, "a rank failed, and others are members since", fmt::format("rank {}", self_));
  throw Error(failure->kind, failure->reason, fmt::format("rank {}", self_));
}

}  // namespace muster::comm
