// How the lanes of a parameter server's workers become updates, and when it changes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::strategies {

// How lanes become updates.
enum class Consistency : std::uint8_t {
  kBsp,     // all lanes of a step together, by the tree: the bits of shared_sync
  kAsp,     // each lane for itself, as it comes
  kSsp,     // the same, but nobody runs more than `bound` steps ahead of the slowest
  kBackup,  // a step goes without its last `backups` lanes
};
std::string_view to_string(Consistency consistency);
std::vector<std::string> consistency_names();
// Throws Error{kInvalidInput} that lists the names.
Consistency parse_consistency(std::string_view name);
// Whether the lanes of a step are kept until all that count are there.
inline bool is_synchronous(Consistency consistency) {
  return consistency == Consistency::kBsp || consistency == Consistency::kBackup;
}

// From `step` on, until the next phase.
struct Phase {
  std::uint64_t step = 0;
  Consistency consistency = Consistency::kBsp;
};

// "bsp", or several with their steps: "asp:200, bsp" is asp for 200 steps and bsp after them. Throws
// Error{kInvalidInput} that says what is allowed.
std::vector<Phase> parse_phases(std::string_view text);

}  // namespace muster::strategies
