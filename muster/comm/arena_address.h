// Where an arena is to be had, as a text that fits an environment variable or a store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::comm {

// Where an arena can be fetched, as text: "muster-0123...:89ab..." (address of a server, nonce of the arena).
struct ArenaAddress {
  std::string server;
  std::uint64_t nonce = 0;

  std::string text() const;
  // Throws kInvalidInput.
  static ArenaAddress parse(std::string_view text);
};

}  // namespace muster::comm
