// A trial that does not fit alone is let through here: it is refused when it starts, with what to change.
// Memory goes before wishes: trials that push each other out of memory are all lost.
#include "muster/cli/tune/slots.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::cli {

Slots decide_slots(const TrialNeeds& needs, int cores, std::uint64_t usable_bytes, std::optional<std::int64_t> asked) {
  const std::int64_t of_trial = std::max<std::int64_t>(1, needs.workers * needs.threads);
  const std::int64_t by_cores = std::max<std::int64_t>(1, cores / of_trial);
  Slots slots;
  slots.count = static_cast<std::size_t>(asked.value_or(by_cores));
  slots.reason = asked ? "as asked for" : fmt::format("{} cores, {} for each trial", cores, of_trial);
  if (!needs.bytes || *needs.bytes == 0) return slots;
  const auto by_memory = static_cast<std::size_t>(std::max<std::uint64_t>(1, usable_bytes / *needs.bytes));
  if (by_memory >= slots.count) return slots;
  slots.count = by_memory;
  slots.reason = fmt::format("{} of memory, {} for each trial", human_bytes(usable_bytes), human_bytes(*needs.bytes));
  return slots;
}

}  // namespace muster::cli
