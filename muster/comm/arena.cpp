// The arena as a place: what is where behind the roster, and what one that enters a generation finds there. The work of
// a step is in arena_steps.cpp.
#include "muster/comm/arena.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena_control.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kArenaMagic = 0x414e455241534d4d;  // "MMSARENA" as bytes
constexpr const char* kArenaPlace = "arena";

[[noreturn]] void refuse(ErrorKind kind, std::string reason) {
  throw Error(kind, std::move(reason), kArenaPlace);
}

}  // namespace

std::size_t Arena::bytes(const ArenaOptions& options) {
  static_assert(sizeof(Control) == 320 && offsetof(Control, pins) == 64, "docs/arena.md says where everything is");
  const auto refuse_value = [](std::string_view what, auto value, std::uint64_t most) {
    refuse(ErrorKind::kInvalidInput, fmt::format("{} {}; up to {} are possible", value, what, most));
  };
  if (options.ranks < 1 || options.ranks > kMostArenaRanks) refuse_value("ranks", options.ranks, kMostArenaRanks);
  if (options.lanes < 1 || options.lanes > kMostLanes) refuse_value("lanes", options.lanes, kMostLanes);
  if (options.step > kMostStep) refuse_value("steps", options.step, kMostStep);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  const auto lanes = static_cast<std::uint64_t>(options.lanes);
  if (options.version_bytes > kMost || options.lane_bytes > kMost / lanes)
    refuse_value("bytes", std::max(options.version_bytes, options.lane_bytes), kMost);
  return Control::areas(options) + lanes * round_up_to(options.lane_bytes, kArenaPage);
}

Arena::Arena(Roster roster, const ArenaOptions& options)
    : Roster(std::move(roster)), options_(options), step_(committed().step) {
}

Arena Arena::create(std::shared_ptr<const SharedRegion> region, const ArenaOptions& options) {
  const RosterOptions roster{options.ranks, options.nonce};
  prepare(*region, roster, bytes(options), {0, options.step, 0});
  Control& control = Control::in(*region, options.ranks);
  control.magic = kArenaMagic;
  control.lanes = static_cast<std::uint32_t>(options.lanes);
  control.version_bytes = options.version_bytes;
  control.lane_bytes = options.lane_bytes;
  control.first_step = options.step;
  publish(*region);
  return Arena(Roster::attach(std::move(region), options.nonce, kAnyRank), options);
}

std::optional<Arena> Arena::find(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank) {
  Roster roster = Roster::attach(std::move(region), nonce, rank);
  const SharedRegion& memory = *roster.region();
  ArenaOptions options;
  options.ranks = roster.options().ranks;
  if (used_bytes(memory) < Control::begin(options.ranks) + sizeof(Control)) return std::nullopt;
  const Control& control = Control::in(memory, options.ranks);
  if (control.magic != kArenaMagic) return std::nullopt;
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
  if (needed != used_bytes(memory)) {
    refuse(ErrorKind::kDamaged, fmt::format("the region is truncated: the arena takes {} bytes and {} were made",
                                            needed, used_bytes(memory)));
  }
  return Arena(std::move(roster), options);
}

Arena Arena::attach(std::shared_ptr<const SharedRegion> region, std::uint64_t nonce, int rank) {
  std::optional<Arena> arena = find(std::move(region), nonce, rank);
  if (!arena) refuse(ErrorKind::kMismatch, "there is a roster, and no arena behind it");
  return *std::move(arena);
}

Arena::Control& Arena::control() const {
  return Control::in(*region(), options_.ranks);
}

std::atomic<std::uint64_t>& Arena::arrival_word(int rank) const {
  const std::size_t offset = Control::arrivals(options_.ranks) + kArenaLine * static_cast<std::size_t>(rank);
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(region()->bytes().data() + offset);
}

std::atomic<std::uint64_t>& Arena::adoption_word(int rank) const {
  return *(&arrival_word(rank) + 1);
}

std::atomic<std::uint64_t>& Arena::lane_word(int lane) const {
  MUSTER_CHECK(lane >= 0 && lane < options_.lanes, "no such lane");
  const std::size_t offset = Control::lane_words(options_.ranks) + kArenaLine * static_cast<std::size_t>(lane);
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(region()->bytes().data() + offset);
}

std::span<std::byte> Arena::version(std::uint64_t buffer) const {
  MUSTER_CHECK(buffer < 2, "there are two buffers");
  const std::size_t offset = Control::versions(options_) + buffer * round_up_to(options_.version_bytes, kArenaPage);
  return region()->bytes().subspan(offset, options_.version_bytes);
}

ReadOnlyMapping Arena::map_version_read_only(std::uint64_t buffer) const {
  const std::span<std::byte> bytes = version(buffer);
  return region()->map_read_only(static_cast<std::size_t>(bytes.data() - region()->bytes().data()), bytes.size());
}

std::span<std::byte> Arena::lane(int lane) const {
  MUSTER_CHECK(lane >= 0 && lane < options_.lanes, "no such lane");
  const std::size_t stride = round_up_to(options_.lane_bytes, kArenaPage);
  return region()->bytes().subspan(Control::areas(options_) + static_cast<std::size_t>(lane) * stride,
                                   options_.lane_bytes);
}

void Arena::set_first_step(std::uint64_t step) {
  MUSTER_CHECK(committed().generation == 0, "the first step is set before the first generation");
  if (step > kMostStep) refuse(ErrorKind::kUnsupported, fmt::format("step {} is beyond {}", step, kMostStep));
  options_.step = control().first_step = step_ = step;
  commit_word().store(CommitWord{0, step, 0, committed().fresh}.pack());
}

void Arena::mark_fresh() {
  CommitWord now = committed();
  MUSTER_CHECK(now.generation == 0, "a host is fresh before the first generation");
  now.fresh = 1;
  commit_word().store(now.pack());
}

// Every member does it for all who are gone, so nobody waits for their lanes. A claim of this generation is somebody's
// who came in since, or in a later one that has begun meanwhile.
void Arena::take_up(const CommitWord& now) {
  step_ = now.step;
  for (int lane = 0; lane < options_.lanes; ++lane) {
    const LaneWord word = lane_state(lane);
    const bool unfinished = word.state == LaneState::kClaimed || word.state == LaneState::kStarted;
    if (!unfinished || word.generation >= generation()) continue;
    if (word.rank != rank() && has_member(members(), word.rank)) continue;
    MUSTER_FAILPOINT("arena.enter.before_free");
    change_lane(lane, word, {generation(), step_});
  }
  pins().clear_the_dead();
  all_entered_ = false;
}

}  // namespace muster::comm
