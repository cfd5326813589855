// The short forms of commit():
// what a single key needs, for every implementation of Store alike.
#include "muster/control/store.h"

namespace muster::control {

std::uint64_t Store::put(std::string_view key, std::string_view value) {
  return *commit({.writes = {{std::string(key), std::string(value)}}});
}

std::optional<std::uint64_t> Store::compare_and_put(std::string_view key, std::uint64_t expected,
                                                    std::string_view value) {
  return commit({.conditions = {{std::string(key), expected}}, .writes = {{std::string(key), std::string(value)}}});
}

void Store::remove(std::string_view key) {
  commit({.writes = {{std::string(key), std::nullopt}}});
}

}  // namespace muster::control
