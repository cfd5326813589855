// Where an arena (or a roster alone) is to be had, as a text that fits an environment variable or a store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/comm/store.h"

namespace muster::comm {

// Where an arena can be fetched, as text: "muster-0123...:89ab..." (address of a server, nonce of the arena).
struct ArenaAddress {
  std::string server;
  std::uint64_t nonce = 0;

  std::string text() const;
  // Throws kInvalidInput.
  static ArenaAddress parse(std::string_view text);
};

// Under which key of the job's store the address stands. What is in a store stays: if the worker that was to make the
// arena (round 0) has ended without it, another one is named in its place, and the address comes in the next round.
std::string arena_key(int round);
// The value of a round that names the worker that is to make the arena.
std::string appointment(int seat);
std::optional<int> appointed_by(std::string_view value);
// The first round that has no value yet.
int open_round(Store& store);

}  // namespace muster::comm
