// Every change of members is one atomic store or compare-and-swap on a word of the control page (arena_words.h); what
// comes before it is invisible and what comes after it can be done again by anybody. docs/arena.md has the argument.
#include "muster/comm/roster.h"

#include <array>
#include <bit>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena_control.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kRosterMagic = 0x524554534f524d4d;  // "MMROSTER" as bytes
constexpr std::uint32_t kRosterLayout = 7;
constexpr const char* kRosterPlace = "roster";
// How often a rank looks whether a generation has begun: rarely enough not to be in the way of those who prepare it.
constexpr std::chrono::microseconds kGenerationPoll{200};

[[noreturn]] void reject(ErrorKind kind, std::string reason, std::string remedy = {}) {
  throw Error(kind, std::move(reason), kRosterPlace, std::move(remedy));
}

[[noreturn]] void reject_closed() {
  reject(ErrorKind::kMismatch, "the roster is stale: its job has ended");
}

}  // namespace

// The beginning of the region. Behind it: one line per rank (the generation that it has entered), the board, the note.
// All zero is a valid state of everything but the head.
struct Roster::Control {
  // Written by prepare() before the magic number, and never again.
  std::atomic<std::uint64_t> magic;
  std::uint32_t layout_version;
  std::uint32_t ranks;
  std::uint64_t nonce;
  std::uint64_t used_bytes;

  alignas(kArenaLine) std::atomic<std::uint64_t> commit;  // CommitWord
  alignas(kArenaLine) std::atomic<std::uint64_t> closed;
  std::atomic<std::uint64_t> charge;  // ProcessWord: who decides on members
  // Members of the present generation, and of the one that is being prepared; `generation` tells which is which.
  struct Members {
    std::atomic<std::uint64_t> generation;
    std::atomic<std::uint64_t> mask;
  };
  alignas(kArenaLine) std::array<Members, 2> members;

  // Offsets of what follows, from the start of the region (docs/arena.md).
  static std::size_t entered() { return sizeof(Control); }
  static std::size_t board(int ranks) { return entered() + kArenaLine * static_cast<std::size_t>(ranks); }
  static std::size_t note(int ranks) { return round_up_to(board(ranks) + Board::bytes(ranks), kArenaPage); }

  static Control& in(const SharedRegion& region) { return *reinterpret_cast<Control*>(region.bytes().data()); }
};

std::size_t Roster::bytes(const RosterOptions& options) {
  static_assert(sizeof(Control) == 256 && offsetof(Control, commit) == 64 && offsetof(Control, closed) == 128 &&
                    offsetof(Control, members) == 192,
                "docs/arena.md says where everything is");
  if (options.ranks < 1 || options.ranks > kMostArenaRanks)
    reject(ErrorKind::kInvalidInput, fmt::format("ranks {}; up to {} are possible", options.ranks, kMostArenaRanks));
  return Control::note(options.ranks) + sizeof(SharedNote::Pages);
}

Roster::Roster(std::shared_ptr<const SharedRegion> region, const RosterOptions& options, int rank)
    : region_(std::move(region)),
      options_(options),
      rank_(rank),
      observer_(region_->bytes().subspan(Control::board(options.ranks)), options.ranks, kAnyRank),
      board_(region_->bytes().subspan(Control::board(options.ranks)), options.ranks, rank),
      generation_(committed().generation) {
}

void Roster::prepare(const SharedRegion& region, const RosterOptions& options, std::size_t needed, CommitWord word) {
  if (region.bytes().size() < needed)
    reject(ErrorKind::kInvalidInput,
           fmt::format("{} bytes are needed and the region has {}", needed, region.bytes().size()));
  Control& control = Control::in(region);
  if (control.magic.load() != 0) reject(ErrorKind::kMismatch, "the region is in use: it holds something already");
  control.layout_version = kRosterLayout;
  control.ranks = static_cast<std::uint32_t>(options.ranks);
  control.nonce = options.nonce;
  control.used_bytes = needed;
  control.commit.store(word.pack());
}

void Roster::publish(const SharedRegion& region) {
  MUSTER_FAILPOINT("roster.create.before_publish");
  Control::in(region).magic.store(kRosterMagic);
}

std::size_t Roster::used_bytes(const SharedRegion& region) {
  return Control::in(region).used_bytes;
}

Roster Roster::create(std::shared_ptr<const SharedRegion> region, const RosterOptions& options) {
  prepare(*region, options, bytes(options), {});
  publish(*region);
  return Roster(std::move(region), options, kAnyRank);
}

Roster Roster::attach(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank) {
  const std::size_t size = region->bytes().size();
  if (size < sizeof(Control))
    reject(ErrorKind::kDamaged, fmt::format("the region is truncated: it has only {} bytes", size));
  const Control& control = Control::in(*region);
  if (control.magic.load() != kRosterMagic)
    reject(ErrorKind::kMismatch, "the region is foreign: it does not begin as a roster does");
  if (control.layout_version != kRosterLayout) {
    reject(ErrorKind::kMismatch,
           fmt::format("the roster has layout {} and this program knows {}", control.layout_version, kRosterLayout),
           "Run the same version of Muster in all processes of a job.");
  }
  if (control.nonce != nonce) reject(ErrorKind::kMismatch, "the roster is foreign: it belongs to another job");
  if (control.closed.load() != 0) reject_closed();
  const RosterOptions options{static_cast<int>(control.ranks), nonce};
  std::size_t needed = 0;
  try {
    needed = bytes(options);
  } catch (const Error& error) {
    reject(ErrorKind::kDamaged, fmt::format("the roster's own sizes make no sense: {}", error.message()));
  }
  if (control.used_bytes < needed || size < control.used_bytes) {
    reject(ErrorKind::kDamaged,
           fmt::format("the region is truncated: {} bytes are needed, {} were when it was made, and {} are there",
                       needed, control.used_bytes, size));
  }
  if (rank < kAnyRank || rank >= options.ranks)
    reject(ErrorKind::kInvalidInput, fmt::format("rank {} has no place: the roster has {} ranks", rank, options.ranks));
  return Roster(std::move(region), options, rank);
}

Roster::Control& Roster::control() const {
  return Control::in(*region_);
}

std::atomic<std::uint64_t>& Roster::commit_word() const {
  return control().commit;
}

CommitWord Roster::committed() const {
  return CommitWord::unpack(commit_word().load());
}

std::atomic<std::uint64_t>& Roster::entered_word(int rank) const {
  const std::size_t offset = Control::entered() + kArenaLine * static_cast<std::size_t>(rank);
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(region_->bytes().data() + offset);
}

bool Roster::has_entered(int rank) const {
  return entered_word(rank).load() == generation_;
}

SharedNote Roster::shared_note() const {
  return SharedNote(*reinterpret_cast<SharedNote::Pages*>(region_->bytes().data() + Control::note(options_.ranks)));
}

// --- Who decides

bool Roster::take_charge(const ProcessId& self) {
  std::uint64_t word = control().charge.load();
  const std::uint64_t own = ProcessWord::of(self).pack();
  if (word == own) return true;
  if (ProcessWord::unpack(word).lives()) return false;
  return control().charge.compare_exchange_strong(word, own);
}

void Roster::leave_charge(const ProcessId& self) {
  std::uint64_t own = ProcessWord::of(self).pack();
  control().charge.compare_exchange_strong(own, ProcessWord::left().pack());
}

bool Roster::abandoned() const {
  const std::uint64_t word = control().charge.load();
  return word != 0 && !ProcessWord::unpack(word).lives();
}

void Roster::publish_members(std::uint64_t current, std::uint64_t generation, std::uint64_t members) {
  // Into the slot that is not the present generation's: its ranks may be reading theirs.
  Control::Members& slot = control().members[control().members[0].generation.load() == current ? 1 : 0];
  slot.generation.store(0);
  slot.mask.store(members);
  MUSTER_FAILPOINT("roster.generation.before_members");
  slot.generation.store(generation);
}

std::uint64_t Roster::read_members(std::uint64_t generation) const {
  for (const Control::Members& slot : control().members) {
    if (slot.generation.load() != generation) continue;
    const std::uint64_t mask = slot.mask.load();
    if (slot.generation.load() == generation) return mask;
  }
  return 0;  // prepared over: another generation has begun meanwhile
}

void Roster::vacate_seats_of_the_dead() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::optional<ProcessId> process = board_.occupant(rank);
    if (process && state_of(*process) == ProcessState::kGone) board_.vacate(rank, *process);
  }
}

void Roster::begin_generation(std::uint64_t generation, std::uint64_t members) {
  MUSTER_CHECK(generation > 0, "a roster is made with generation 0");
  MUSTER_CHECK(members != 0 && static_cast<int>(std::bit_width(members)) <= options_.ranks,
               "members are ranks of the roster");
  if (generation > kMostGeneration) {
    reject(ErrorKind::kUnsupported, fmt::format("generation {} is beyond {}", generation, kMostGeneration),
           "Checkpoint, and resume the job.");
  }
  std::uint64_t word = commit_word().load();
  const std::uint64_t current = CommitWord::unpack(word).generation;
  if (generation < current || (generation == current && members != read_members(current))) {
    reject(ErrorKind::kMismatch, fmt::format("generation {} cannot begin: generation {} has, with members {:#x}",
                                             generation, current, read_members(current)));
  }
  if (generation > current) {
    publish_members(current, generation, members);
    // Before the new generation can be entered: a seat that is found dead after that is a new death.
    vacate_seats_of_the_dead();
    MUSTER_FAILPOINT("roster.generation.before_bump");
    // The last commit of the old generation may come in between; after this none can.
    for (CommitWord now = CommitWord::unpack(word); now.generation < generation; now = CommitWord::unpack(word)) {
      if (commit_word().compare_exchange_strong(word, CommitWord{generation, now.step, now.buffer, now.fresh}.pack()))
        break;
    }
  }
  MUSTER_FAILPOINT("roster.generation.before_ring");
  board_.ring_all();
}

void Roster::fail(int rank, std::string_view reason) {
  Board board = observer_;
  board.set_generation(static_cast<std::uint32_t>(committed().generation));
  board.fail(rank, ErrorKind::kPeerLost, reason);
}

void Roster::close() {
  control().closed.store(1);
  observer_.ring_all();
}

// --- A rank's own part

void Roster::enter(std::uint64_t generation, const Deadline& deadline) {
  MUSTER_CHECK(rank_ != kAnyRank, "an observer enters nothing");
  CommitWord now = committed();
  for (; now.generation < generation; now = committed()) {
    if (deadline.passed()) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("the deadline passed: generation {} has not begun, generation {} has", generation,
                              now.generation),
                  fmt::format("rank {}", rank_));
    }
    system_clock().sleep_for(kGenerationPoll);
  }
  if (control().closed.load() != 0) reject_closed();
  const std::uint64_t members = read_members(generation);
  if (now.generation != generation || committed().generation != generation) {
    reject(ErrorKind::kMismatch,
           fmt::format("generation {} is stale: generation {} has begun", generation, committed().generation));
  }
  if (!has_member(members, rank_))
    reject(ErrorKind::kMismatch, fmt::format("rank {} is no member of generation {}", rank_, generation));
  if (entered_word(rank_).load() == generation) {
    reject(ErrorKind::kMismatch, fmt::format("rank {} has entered generation {} before", rank_, generation),
           "Whoever takes a rank's place needs a new generation.");
  }
  generation_ = generation;
  members_ = members;
  take_up(now);
  board_.set_generation(static_cast<std::uint32_t>(generation));
  board_.set_members(members);
  MUSTER_FAILPOINT("roster.enter.before_sit");
  board_.sit();
  MUSTER_FAILPOINT("roster.enter.before_arrival");
  entered_word(rank_).store(generation_);
  MUSTER_FAILPOINT("roster.enter.after_arrival");
  board_.announce();
}

void Roster::enter_next(const Deadline& deadline) {
  for (const std::uint64_t old = generation_;;) {
    const std::uint64_t now = committed().generation;
    if (now > old && has_member(read_members(now), rank_)) {
      try {
        return enter(now, deadline);
      } catch (const Error&) {
        if (committed().generation == now) throw;  // else overtaken by yet another one
      }
    }
    if (control().closed.load() != 0) reject_closed();
    if (deadline.passed()) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("the deadline passed: no generation after {} with rank {} has begun", old, rank_),
                  fmt::format("rank {}", rank_), "See whether the process that started the workers is alive.");
    }
    system_clock().sleep_for(kGenerationPoll);
  }
}

void Roster::throw_if_superseded() const {
  const std::uint64_t now = committed().generation;
  if (now == generation_) return;
  throw Error(ErrorKind::kPeerLost,
              fmt::format("the members changed: generation {} has begun, this rank is in {}", now, generation_),
              fmt::format("rank {}", rank_));
}

}  // namespace muster::comm
