// Pins: how a reader (checkpoint, evaluation, streaming to a new host) keeps a committed version from being
// overwritten.
//
// Sixteen slots on the arena's control page, each with the process that holds it and the version it holds. A pin counts
// once the version was still the committed one after the pin could be seen, so whoever commits the next version sees
// the pin before it overwrites this one. The pin of a process that died is none: whoever meets it clears it. Thread
// safety: every method from any thread of any process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/comm/arena_words.h"
#include "muster/comm/board.h"
#include "muster/comm/region.h"

namespace muster::comm {

// A committed version that nobody overwrites while this lives. A value that moves.
class VersionPin {
 public:
  VersionPin(VersionPin&& other) noexcept;
  VersionPin& operator=(VersionPin&&) = delete;
  ~VersionPin();

  std::uint64_t step() const { return version_.step; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  friend class Arena;
  friend class VersionPins;
  VersionPin() = default;

  std::shared_ptr<const SharedRegion> region_;
  std::optional<Board> bell_;
  std::atomic<std::uint64_t>* owner_ = nullptr;
  PinWord version_;
  std::span<const std::byte> bytes_;
};

class VersionPins {
 public:
  static constexpr std::size_t kSlots = 16;
  struct Slot {
    std::atomic<std::uint64_t> owner;    // ProcessWord: who holds it; 0: nobody
    std::atomic<std::uint64_t> version;  // PinWord; an earlier owner's until the present one has stored its own
  };
  using Slots = std::array<Slot, kSlots>;

  // A view; `slots` and `commit` (a CommitWord) are shared memory. `bell` wakes those who wait for a pin to go.
  VersionPins(Slots& slots, const std::atomic<std::uint64_t>& commit, const Board& bell)
      : slots_(slots), commit_(commit), bell_(bell) {}

  // Holds the version that is committed now. Throws kResource when all slots are held by the living.
  VersionPin pin() const;
  // Who keeps `buffer` from being written: "process 12 let go of version 5". Asks for each whether it still lives if
  // told to, which costs some microseconds.
  std::optional<std::string> holder(std::uint64_t buffer, bool look_for_the_dead) const;
  void clear_the_dead() const;

 private:
  Slots& slots_;
  const std::atomic<std::uint64_t>& commit_;
  const Board& bell_;
};

}  // namespace muster::comm
