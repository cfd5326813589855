// The texts by which processes find an arena and agree on who makes one. They are read strictly: a store may hold what
// an earlier job or another program left.
#include "muster/comm/arena_address.h"

#include <charconv>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::comm {
namespace {

constexpr std::string_view kAppointed = "by:";

}  // namespace

std::string ArenaAddress::text() const {
  return fmt::format("{}:{:016x}", server, nonce);
}

ArenaAddress ArenaAddress::parse(std::string_view text) {
  ArenaAddress address;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    address.server = text.substr(0, colon);
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.nonce, 16);
    if (error == std::errc() && end == digits.data() + digits.size() && !address.server.empty()) return address;
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no address of an arena", excerpt(text, 80)));
}

std::string arena_key(int round) {
  return round == 0 ? "arena" : fmt::format("arena-{}", round);
}

std::string appointment(int seat) {
  return fmt::format("{}{}", kAppointed, seat);
}

std::optional<int> appointed_by(std::string_view value) {
  if (!value.starts_with(kAppointed)) return std::nullopt;
  const std::string_view digits = value.substr(kAppointed.size());
  int seat = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seat);
  if (error != std::errc() || end != digits.data() + digits.size() || seat < 0) return std::nullopt;
  return seat;
}

int open_round(Store& store) {
  for (int round = 0;; ++round) {
    try {
      store.get(arena_key(round), Deadline::after(std::chrono::nanoseconds(0)));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kTimeout) return round;
      throw;
    }
  }
}

}  // namespace muster::comm
