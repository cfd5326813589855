#include "muster/launch/death_reason.h"

#include <signal.h>

#include <optional>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::launch {
namespace {

constexpr std::chrono::seconds kTimeToDie{1};
constexpr std::chrono::seconds kLongPause{30};

}  // namespace

void DeathReasons::look_at(pid_t pid) {
  const std::optional<MemoryGroup> group = memory_group_of(pid);
  if (!group) return;
  const Count now{oom_kills(*group), clock_.now()};
  const auto [entry, fresh] = known_.try_emplace(pid, Known{*group, now, now});
  Known& known = entry->second;
  if (fresh) return;
  // After a long pause it is another process of the same number.
  if (!(known.group == *group) || now.at - known.newer.at > kLongPause) {
    known = {*group, now, now};
  } else if (now.at - known.newer.at >= kTimeToDie) {
    known.older = known.newer;
    known.newer = now;
  }
}

std::string DeathReasons::explain(pid_t pid, const Ending& ending) {
  const auto entry = known_.extract(pid);
  if (entry.empty() || (ending.signal != SIGKILL && !ending.unknown)) return to_string(ending);
  const Known& known = entry.mapped();
  if (oom_kills(known.group) <= known.older.kills) return to_string(ending);
  const std::optional<std::uint64_t> limit = memory_limit(known.group);
  return fmt::format(
      "the kernel killed it for lack of memory ({}); fewer workers, a smaller data.lane_batch or more memory help",
      limit ? fmt::format("its control group {} may use {}", known.group.path.string(), human_bytes(*limit))
            : "the machine has no more");
}

}  // namespace muster::launch
