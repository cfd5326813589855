#include "muster/comm/arena_address.h"

#include <charconv>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::comm {

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

}  // namespace muster::comm
