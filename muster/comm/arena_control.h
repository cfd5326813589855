// What the sources of roster and arena share, and the arena's own part of the control pages. Internal to roster.cpp,
// arena.cpp and arena_steps.cpp. Offsets are those of docs/arena.md; all zero is a valid state of everything but the
// heads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "muster/comm/arena.h"

namespace muster::comm {

constexpr std::size_t kArenaLine = 64;
constexpr std::size_t kArenaPage = 4096;
// Phases of an arrival beside those of the strategies.
constexpr int kFlipPhase = 254;
constexpr int kKeepPhase = 255;

inline std::size_t round_up_to(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

inline bool has_member(std::uint64_t members, int rank) {
  return (members >> rank & 1) != 0;
}

// Behind the roster. Behind it: one line per rank (its ArrivalWord), one line per lane (its LaneWord), versions, areas.
struct Arena::Control {
  // Written by create() before the roster is published, and never again.
  std::uint64_t magic;
  std::uint32_t lanes;
  std::uint32_t unused;
  std::uint64_t version_bytes;
  std::uint64_t lane_bytes;
  std::uint64_t first_step;

  alignas(kArenaLine) VersionPins::Slots pins;

  // Offsets of what follows, from the start of the region. They depend on ranks and lanes only (docs/arena.md).
  static std::size_t begin(int ranks) { return Roster::bytes({ranks}); }
  static std::size_t arrivals(int ranks) { return begin(ranks) + sizeof(Control); }
  static std::size_t lane_words(int ranks) { return arrivals(ranks) + kArenaLine * static_cast<std::size_t>(ranks); }
  static std::size_t versions(const ArenaOptions& options) {
    return round_up_to(lane_words(options.ranks) + kArenaLine * static_cast<std::size_t>(options.lanes), kArenaPage);
  }
  static std::size_t areas(const ArenaOptions& options) {
    return versions(options) + 2 * round_up_to(options.version_bytes, kArenaPage);
  }
  static Control& in(const SharedRegion& region, int ranks) {
    return *reinterpret_cast<Control*>(region.bytes().data() + begin(ranks));
  }
};

}  // namespace muster::comm
