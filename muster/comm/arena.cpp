// Every change of state is one compare-and-swap on a word of the control page (arena_words.h); what comes before it is
// invisible and what comes after it can be done again by anybody. docs/arena.md has the argument, death by death.
#include "muster/comm/arena.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena_control.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kArenaMagic = 0x414e455241534d4d;  // "MMSARENA" as bytes
constexpr std::uint32_t kLayoutVersion = 6;
constexpr const char* kArenaPlace = "arena";
// How often a rank looks whether a generation has begun: rarely enough not to be in the way of those who prepare it.
constexpr std::chrono::microseconds kGenerationPoll{200};

[[noreturn]] void refuse(ErrorKind kind, std::string reason, std::string remedy = {}) {
  throw Error(kind, std::move(reason), kArenaPlace, std::move(remedy));
}

}  // namespace

std::size_t Arena::bytes(const ArenaOptions& options) {
  static_assert(sizeof(Control) == 512 && offsetof(Control, commit) == 64 && offsetof(Control, closed) == 128 &&
                    offsetof(Control, members) == 192 && offsetof(Control, pins) == 256,
                "docs/arena.md says where everything is");
  const auto refuse_value = [](std::string_view what, auto value, std::uint64_t most) {
    refuse(ErrorKind::kInvalidInput, fmt::format("{} {}; up to {} are possible", value, what, most));
  };
  if (options.ranks < 1 || options.ranks > kMostArenaRanks) refuse_value("ranks", options.ranks, kMostArenaRanks);
  if (options.lanes < 0 || options.lanes > kMostLanes) refuse_value("lanes", options.lanes, kMostLanes);
  if (options.step > kMostStep) refuse_value("steps", options.step, kMostStep);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  const auto lanes = static_cast<std::uint64_t>(options.lanes);
  if (options.version_bytes > kMost || (lanes > 0 && options.lane_bytes > kMost / lanes))
    refuse_value("bytes", std::max(options.version_bytes, options.lane_bytes), kMost);
  return Control::areas(options) + lanes * round_up_to(options.lane_bytes, kArenaPage);
}

Arena::Arena(std::shared_ptr<const SharedRegion> region, const ArenaOptions& options, int rank)
    : region_(std::move(region)),
      options_(options),
      rank_(rank),
      observer_(region_->bytes().subspan(Control::board(options.ranks, options.lanes)), options.ranks, kAnyRank),
      board_(region_->bytes().subspan(Control::board(options.ranks, options.lanes)), options.ranks, rank) {
  const CommitWord now = committed();
  generation_ = now.generation;
  step_ = now.step;
}

Arena Arena::create(std::shared_ptr<const SharedRegion> region, const ArenaOptions& options) {
  const std::size_t needed = bytes(options);
  if (region->bytes().size() < needed)
    refuse(ErrorKind::kInvalidInput,
           fmt::format("{} bytes are needed and the region has {}", needed, region->bytes().size()));
  Control& control = *reinterpret_cast<Control*>(region->bytes().data());
  if (control.magic.load() != 0) refuse(ErrorKind::kMismatch, "the region is in use: it holds something already");
  control.layout_version = kLayoutVersion;
  control.ranks = static_cast<std::uint32_t>(options.ranks);
  control.lanes = static_cast<std::uint32_t>(options.lanes);
  control.version_bytes = options.version_bytes;
  control.lane_bytes = options.lane_bytes;
  control.nonce = options.nonce;
  control.first_step = options.step;
  control.total_bytes = needed;
  control.commit.store(CommitWord{0, options.step, 0}.pack());
  MUSTER_FAILPOINT("arena.create.before_publish");
  control.magic.store(kArenaMagic);
  return Arena(std::move(region), options, kAnyRank);
}

Arena Arena::attach(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank) {
  const std::size_t size = region->bytes().size();
  if (size < sizeof(Control))
    refuse(ErrorKind::kDamaged, fmt::format("the region is truncated: it has only {} bytes", size));
  const Control& control = *reinterpret_cast<const Control*>(region->bytes().data());
  if (control.magic.load() != kArenaMagic)
    refuse(ErrorKind::kMismatch, "the region is foreign: it does not begin as an arena does");
  if (control.layout_version != kLayoutVersion) {
    refuse(ErrorKind::kMismatch,
           fmt::format("the arena has layout {} and this program knows {}", control.layout_version, kLayoutVersion),
           "Run the same version of Muster in all processes of a job.");
  }
  if (control.nonce != nonce) refuse(ErrorKind::kMismatch, "the arena is foreign: it belongs to another job");
  if (control.closed.load() != 0) refuse(ErrorKind::kMismatch, "the arena is stale: its job has ended");
  ArenaOptions options;
  options.ranks = static_cast<int>(control.ranks);
  options.lanes = static_cast<int>(control.lanes);
  options.version_bytes = control.version_bytes;
  options.lane_bytes = control.lane_bytes;
  options.nonce = nonce;
  options.step = control.first_step;
  std::size_t needed = 0;
  try {
    needed = bytes(options);
  } catch (const Error& error) {
    refuse(ErrorKind::kDamaged, fmt::format("the arena's own sizes make no sense: {}", error.message()));
  }
  if (needed != control.total_bytes || size < needed) {
    refuse(ErrorKind::kDamaged,
           fmt::format("the region is truncated: the arena takes {} bytes ({} when it was made) and {} are there",
                       needed, control.total_bytes, size));
  }
  if (rank < kAnyRank || rank >= options.ranks)
    refuse(ErrorKind::kInvalidInput, fmt::format("rank {} has no place: the arena has {} ranks", rank, options.ranks));
  return Arena(std::move(region), options, rank);
}

Arena::Control& Arena::control() const {
  return *reinterpret_cast<Control*>(region_->bytes().data());
}

std::atomic<std::uint64_t>& Arena::arrival_word(int rank) const {
  const std::size_t offset = Control::arrivals() + kArenaLine * static_cast<std::size_t>(rank);
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(region_->bytes().data() + offset);
}

std::atomic<std::uint64_t>& Arena::adoption_word(int rank) const {
  return *(&arrival_word(rank) + 1);
}

std::atomic<std::uint64_t>& Arena::lane_word(int lane) const {
  MUSTER_CHECK(lane >= 0 && lane < options_.lanes, "no such lane");
  const std::size_t offset = Control::lane_words(options_.ranks) + kArenaLine * static_cast<std::size_t>(lane);
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(region_->bytes().data() + offset);
}

CommitWord Arena::committed() const {
  return CommitWord::unpack(control().commit.load());
}

std::span<std::byte> Arena::version(std::uint64_t buffer) const {
  MUSTER_CHECK(buffer < 2, "there are two buffers");
  const std::size_t offset = Control::versions(options_) + buffer * round_up_to(options_.version_bytes, kArenaPage);
  return region_->bytes().subspan(offset, options_.version_bytes);
}

ReadOnlyMapping Arena::map_version_read_only(std::uint64_t buffer) const {
  const std::span<std::byte> bytes = version(buffer);
  return region_->map_read_only(static_cast<std::size_t>(bytes.data() - region_->bytes().data()), bytes.size());
}

std::span<std::byte> Arena::lane(int lane) const {
  MUSTER_CHECK(lane >= 0 && lane < options_.lanes, "no such lane");
  const std::size_t stride = round_up_to(options_.lane_bytes, kArenaPage);
  return region_->bytes().subspan(Control::areas(options_) + static_cast<std::size_t>(lane) * stride,
                                  options_.lane_bytes);
}

// --- Members

bool Arena::take_charge(const ProcessId& self) {
  std::uint64_t word = control().charge.load();
  const std::uint64_t own = ProcessWord::of(self).pack();
  if (word == own) return true;
  if (ProcessWord::unpack(word).lives()) return false;
  return control().charge.compare_exchange_strong(word, own);
}

void Arena::leave_charge(const ProcessId& self) {
  std::uint64_t own = ProcessWord::of(self).pack();
  control().charge.compare_exchange_strong(own, ProcessWord::left().pack());
}

bool Arena::abandoned() const {
  const std::uint64_t word = control().charge.load();
  return word != 0 && !ProcessWord::unpack(word).lives();
}

void Arena::publish_members(std::uint64_t current, std::uint64_t generation, std::uint64_t members) {
  // Into the slot that is not the present generation's: its ranks may be reading theirs.
  Control::Members& slot = control().members[control().members[0].generation.load() == current ? 1 : 0];
  slot.generation.store(0);
  slot.mask.store(members);
  MUSTER_FAILPOINT("arena.generation.before_members");
  slot.generation.store(generation);
}

std::uint64_t Arena::read_members(std::uint64_t generation) const {
  for (const Control::Members& slot : control().members) {
    if (slot.generation.load() != generation) continue;
    const std::uint64_t mask = slot.mask.load();
    if (slot.generation.load() == generation) return mask;
  }
  return 0;  // prepared over: another generation has begun meanwhile
}

void Arena::vacate_seats_of_the_dead() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::optional<ProcessId> process = board_.occupant(rank);
    if (process && state_of(*process) == ProcessState::kGone) board_.vacate(rank, *process);
  }
}

void Arena::free_lanes_of_others(std::uint64_t members) {
  const CommitWord now = committed();
  for (int lane = 0; lane < options_.lanes; ++lane) {
    std::uint64_t word = lane_word(lane).load();
    const LaneWord lane_now = LaneWord::unpack(word);
    const bool unfinished = lane_now.state == LaneState::kClaimed || lane_now.state == LaneState::kStarted;
    if (lane_now.step != now.step || !unfinished || has_member(members, lane_now.rank)) continue;
    MUSTER_FAILPOINT("arena.generation.before_free");
    lane_word(lane).compare_exchange_strong(word, LaneWord{now.generation, now.step}.pack());
  }
}

void Arena::begin_generation(std::uint64_t generation, std::uint64_t members) {
  MUSTER_CHECK(generation > 0, "the arena is made with generation 0");
  MUSTER_CHECK(members != 0 && static_cast<int>(std::bit_width(members)) <= options_.ranks,
               "members are ranks of the arena");
  if (generation > kMostGeneration) {
    refuse(ErrorKind::kUnsupported, fmt::format("generation {} is beyond {}", generation, kMostGeneration),
           "Checkpoint, and resume in a new arena.");
  }
  std::uint64_t word = control().commit.load();
  const std::uint64_t current = CommitWord::unpack(word).generation;
  if (generation < current || (generation == current && members != read_members(current))) {
    refuse(ErrorKind::kMismatch, fmt::format("generation {} cannot begin: generation {} has, with members {:#x}",
                                             generation, current, read_members(current)));
  }
  if (generation > current) {
    publish_members(current, generation, members);
    // Before the new generation can be entered: a seat that is found dead after that is a new death.
    vacate_seats_of_the_dead();
    MUSTER_FAILPOINT("arena.generation.before_bump");
    // The last commit of the old generation may come in between; after this none can.
    for (CommitWord now = CommitWord::unpack(word); now.generation < generation; now = CommitWord::unpack(word)) {
      if (control().commit.compare_exchange_strong(word,
                                                   CommitWord{generation, now.step, now.buffer, now.fresh}.pack()))
        break;
    }
  }
  MUSTER_FAILPOINT("arena.generation.after_bump");
  free_lanes_of_others(members);
  pins().clear_the_dead();
  MUSTER_FAILPOINT("arena.generation.before_ring");
  board_.ring_all();
}

void Arena::fail(int rank, std::string_view reason) {
  Board board = observer_;
  board.set_generation(static_cast<std::uint32_t>(committed().generation));
  board.fail(rank, ErrorKind::kPeerLost, reason);
}

void Arena::close() {
  control().closed.store(1);
  observer_.ring_all();
}

void Arena::set_first_step(std::uint64_t step) {
  MUSTER_CHECK(committed().generation == 0, "the first step is set before the first generation");
  if (step > kMostStep) refuse(ErrorKind::kUnsupported, fmt::format("step {} is beyond {}", step, kMostStep));
  options_.step = control().first_step = step_ = step;
  control().commit.store(CommitWord{0, step, 0, committed().fresh}.pack());
}

void Arena::mark_fresh() {
  CommitWord now = committed();
  MUSTER_CHECK(now.generation == 0, "a host is fresh before the first generation");
  now.fresh = 1;
  control().commit.store(now.pack());
}

void Arena::enter(std::uint64_t generation, const Deadline& deadline) {
  MUSTER_CHECK(rank_ != kAnyRank, "an observer enters nothing");
  CommitWord now = committed();
  for (; now.generation < generation; now = committed()) {
    if (deadline.passed()) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("the deadline passed: generation {} has not begun, the arena is in generation {}",
                              generation, now.generation),
                  fmt::format("rank {}", rank_));
    }
    system_clock().sleep_for(kGenerationPoll);
  }
  if (control().closed.load() != 0) refuse(ErrorKind::kMismatch, "the arena is stale: its job has ended");
  const std::uint64_t members = read_members(generation);
  if (now.generation != generation || committed().generation != generation) {
    refuse(ErrorKind::kMismatch,
           fmt::format("generation {} is stale: the arena is in generation {}", generation, committed().generation));
  }
  if (!has_member(members, rank_))
    refuse(ErrorKind::kMismatch, fmt::format("rank {} is no member of generation {}", rank_, generation));
  if (ArrivalWord::unpack(arrival_word(rank_).load()).generation == generation) {
    refuse(ErrorKind::kMismatch, fmt::format("rank {} has entered generation {} before", rank_, generation),
           "Whoever takes a rank's place needs a new generation.");
  }
  generation_ = generation;
  members_ = members;
  step_ = now.step;
  for (int lane = 0; lane < options_.lanes; ++lane) {
    const LaneWord word = lane_state(lane);
    const bool unfinished = word.state == LaneState::kClaimed || word.state == LaneState::kStarted;
    if (!unfinished || word.rank != rank_) continue;
    MUSTER_FAILPOINT("arena.enter.before_free");
    change_lane(lane, word, {generation_, step_});
  }
  board_.set_generation(static_cast<std::uint32_t>(generation));
  board_.set_members(members);
  all_entered_ = false;
  MUSTER_FAILPOINT("arena.enter.before_sit");
  board_.sit();
  MUSTER_FAILPOINT("arena.enter.before_arrival");
  arrival_word(rank_).store(ArrivalWord{generation_, step_, kEnteredPhase}.pack());
  MUSTER_FAILPOINT("arena.enter.after_arrival");
  board_.announce();
}

void Arena::enter_next(const Deadline& deadline) {
  for (const std::uint64_t old = generation_;;) {
    const std::uint64_t now = committed().generation;
    if (now > old && has_member(read_members(now), rank_)) {
      try {
        return enter(now, deadline);
      } catch (const Error&) {
        if (committed().generation == now) throw;  // else overtaken by yet another one
      }
    }
    if (control().closed.load() != 0) refuse(ErrorKind::kMismatch, "the arena is stale: its job has ended");
    if (deadline.passed()) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("the deadline passed: no generation after {} with rank {} has begun", old, rank_),
                  fmt::format("rank {}", rank_), "See whether the process that started the workers is alive.");
    }
    system_clock().sleep_for(kGenerationPoll);
  }
}

bool Arena::superseded() const {
  return committed().generation != generation_;
}

void Arena::throw_if_superseded() const {
  const std::uint64_t now = committed().generation;
  if (now == generation_) return;
  throw Error(ErrorKind::kPeerLost,
              fmt::format("the members changed: generation {} has begun, this rank is in {}", now, generation_),
              fmt::format("rank {}", rank_));
}

}  // namespace muster::comm
