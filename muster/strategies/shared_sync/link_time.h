// How long bytes may take between two hosts before somebody gives up: a limit that fits the work, beside the time that
// a step has anyway. Who is lost or hangs meanwhile is found by those who watch, and the next generation ends the wait.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster::strategies {

// Bytes in a second. A slower link is not worth waiting for.
constexpr std::uint64_t kSlowestLink = std::uint64_t{64} << 10;

constexpr std::chrono::seconds time_on_link(std::uint64_t bytes) {
  return std::chrono::seconds(bytes / kSlowestLink + 1);
}

}  // namespace muster::strategies
