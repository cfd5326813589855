// A map is a value of the store under its generation, written once; generations have no gap, so the next one is asked
// for by number. look() goes on to the newest, advance() takes one.
#include "muster/strategies/parameter_server/server_maps.h"

#include <optional>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::milliseconds kLook{5};

std::optional<std::string> value(comm::Store& store, const std::string& key) {
  try {
    return store.get(key, Deadline::after(std::chrono::nanoseconds(0)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    return std::nullopt;
  }
}

}  // namespace

bool ServerMaps::look() {
  std::optional<std::string> newest;
  for (std::uint64_t generation = map_.generation + 1;; ++generation) {
    std::optional<std::string> text = value(*store_, control::map_key(generation));
    if (!text) break;
    newest = std::move(text);
  }
  if (!newest) return false;
  map_ = control::ServerMap::from_text(*newest);
  return true;
}

bool ServerMaps::advance() {
  const std::optional<std::string> text = value(*store_, control::map_key(map_.generation + 1));
  if (!text) return false;
  map_ = control::ServerMap::from_text(*text);
  return true;
}

void ServerMaps::wait_after(std::uint64_t generation, const Deadline& deadline) {
  for (;;) {
    look();
    if (map_.generation > generation) return;
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, fmt::format("no map of the parameter servers after generation {}", generation));
    system_clock().sleep_for(kLook);
  }
}

}  // namespace muster::strategies
