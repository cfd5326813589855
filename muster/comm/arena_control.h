// The control page of an arena in memory, and what the sources of the arena share. Internal to arena.cpp and
// arena_steps.cpp. Offsets are those of docs/arena.md; all zero is a valid state of everything but the head.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "muster/comm/arena.h"

namespace muster::comm {

constexpr std::size_t kArenaLine = 64;
constexpr std::size_t kArenaPage = 4096;
// Phases of an arrival beside those of the strategies.
constexpr int kEnteredPhase = 0;
constexpr int kFlipPhase = 254;
constexpr int kKeepPhase = 255;

inline std::size_t round_up_to(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

inline bool has_member(std::uint64_t members, int rank) {
  return (members >> rank & 1) != 0;
}

// The beginning of the control page. Behind it: one line per rank (its ArrivalWord), one line per lane (its LaneWord),
// the board. All zero is a valid state of everything but the head.
struct Arena::Control {
  // Written by create() before the magic number, and never again.
  std::atomic<std::uint64_t> magic;
  std::uint32_t layout_version;
  std::uint32_t ranks;
  std::uint32_t lanes;
  std::uint32_t unused;
  std::uint64_t version_bytes;
  std::uint64_t lane_bytes;
  std::uint64_t nonce;
  std::uint64_t first_step;
  std::uint64_t total_bytes;

  alignas(kArenaLine) std::atomic<std::uint64_t> commit;  // CommitWord
  alignas(kArenaLine) std::atomic<std::uint64_t> closed;
  std::atomic<std::uint64_t> charge;  // ProcessWord: who decides on members
  // Members of the present generation, and of the one that is being prepared; `generation` tells which is which.
  struct Members {
    std::atomic<std::uint64_t> generation;
    std::atomic<std::uint64_t> mask;
  };
  alignas(kArenaLine) std::array<Members, 2> members;
  alignas(kArenaLine) VersionPins::Slots pins;

  // Offsets of what follows, from the start of the region. They depend on ranks and lanes only (docs/arena.md).
  static std::size_t arrivals() { return sizeof(Control); }
  static std::size_t lane_words(int ranks) { return arrivals() + kArenaLine * static_cast<std::size_t>(ranks); }
  static std::size_t board(int ranks, int lanes) {
    return lane_words(ranks) + kArenaLine * static_cast<std::size_t>(lanes);
  }
  static std::size_t notes(const ArenaOptions& options) {
    return round_up_to(board(options.ranks, options.lanes) + Board::bytes(options.ranks), kArenaPage);
  }
  static std::size_t versions(const ArenaOptions& options) { return notes(options) + sizeof(SharedNote::Pages); }
  static std::size_t areas(const ArenaOptions& options) {
    return versions(options) + 2 * round_up_to(options.version_bytes, kArenaPage);
  }
};

}  // namespace muster::comm
