// The words of an arena's control page: what is packed into one atomic 64-bit integer, so that it changes all at once.
//
// Every word carries generation and step. Nothing is ever reset: a word of an earlier step simply means nothing any
// more, so a process that dies leaves no half-done cleaning behind. Offsets and the protocol: docs/arena.md.
#pragma once

#include <cstdint>

#include "muster/base/process.h"

namespace muster::comm {

constexpr std::uint64_t kMostGeneration = (std::uint64_t{1} << 20) - 1;
// The narrowest of the words' steps; at a thousand steps a second it lasts for two years.
constexpr std::uint64_t kMostStep = (std::uint64_t{1} << 36) - 1;
constexpr int kMostArenaRanks = 64;

// generation 20 | fresh 1 | step 42 | buffer 1
struct CommitWord {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;    // steps committed so far: the number of the version that is to be read
  std::uint64_t buffer = 0;  // where that version lies
  std::uint64_t fresh = 0;   // 1: it is not the job's yet

  constexpr std::uint64_t pack() const { return generation << 44 | fresh << 43 | step << 1 | buffer; }
  static constexpr CommitWord unpack(std::uint64_t word) {
    return {word >> 44, word >> 1 & ((std::uint64_t{1} << 42) - 1), word & 1, word >> 43 & 1};
  }
  bool operator==(const CommitWord&) const = default;
};

enum class LaneState : std::uint64_t {
  kFree,
  kClaimed,  // somebody will compute it, and has not begun
  kStarted,  // its area is being written
  kDone,     // its area is complete
};

// generation 20 | step 36 | state 2 | rank 6
struct LaneWord {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  LaneState state = LaneState::kFree;
  int rank = 0;  // who claimed it; 0 when free

  constexpr std::uint64_t pack() const {
    return generation << 44 | step << 8 | static_cast<std::uint64_t>(state) << 6 | static_cast<std::uint64_t>(rank);
  }
  static constexpr LaneWord unpack(std::uint64_t word) {
    return {word >> 44, word >> 8 & kMostStep, static_cast<LaneState>(word >> 6 & 3), static_cast<int>(word & 63)};
  }
  // The word as it counts in `now`: one of an earlier step is a free lane.
  constexpr LaneWord in_step(std::uint64_t now) const { return step >= now ? *this : LaneWord{generation, now}; }
  bool operator==(const LaneWord&) const = default;
};

// generation 20 | step 36 | phase 8
struct ArrivalWord {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  int phase = 0;

  constexpr std::uint64_t pack() const { return generation << 44 | step << 8 | static_cast<std::uint64_t>(phase); }
  static constexpr ArrivalWord unpack(std::uint64_t word) {
    return {word >> 44, word >> 8 & kMostStep, static_cast<int>(word & 255)};
  }
  bool operator==(const ArrivalWord&) const = default;
};

// The process that holds something: start time 42 (a thousand years of the kernel's ticks) | pid 22 (its limit). All
// zero: nobody has held it yet.
struct ProcessWord {
  std::uint64_t pid = 0;  // 0: nobody
  std::uint64_t start_time = 0;

  static constexpr std::uint64_t kPidBits = 22;
  static constexpr ProcessWord of(const ProcessId& process) {
    return {static_cast<std::uint64_t>(process.pid), process.start_time};
  }
  // Of what the last holder has let go by itself.
  static constexpr ProcessWord left() { return {0, 1}; }
  constexpr std::uint64_t pack() const { return start_time << kPidBits | pid; }
  static constexpr ProcessWord unpack(std::uint64_t word) {
    return {word & ((std::uint64_t{1} << kPidBits) - 1), word >> kPidBits};
  }
  bool lives() const {
    return pid != 0 && state_of({static_cast<std::int32_t>(pid), start_time}) != ProcessState::kGone;
  }
  bool operator==(const ProcessWord&) const = default;
};

// A pinned version: step 43 | buffer 1 | 1
struct PinWord {
  std::uint64_t step = 0;
  std::uint64_t buffer = 0;

  constexpr std::uint64_t pack() const { return step << 2 | buffer << 1 | 1; }
  static constexpr PinWord unpack(std::uint64_t word) { return {word >> 2, word >> 1 & 1}; }
  bool operator==(const PinWord&) const = default;
};

}  // namespace muster::comm
