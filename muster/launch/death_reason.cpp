// A process that is dead has left its control group, so counts of kills are noted while it lives and compared after its
// end.
#include "muster/launch/death_reason.h"

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster::launch {
namespace {

constexpr std::chrono::seconds kTimeToDie{1};
constexpr std::chrono::seconds kLongPause{30};

// A process that ends gives its memory back first and then leaves its control group for the root's, while its number
// still stands in /proc. So a group that was read before memory was seen is that of the living process.
bool has_memory(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  std::uint64_t pages = 0;
  return file >> pages && pages > 0;
}

}  // namespace

void DeathReasons::look_at(pid_t pid) {
  const std::optional<MemoryGroup> group = memory_group_of(pid);
  if (!group || !has_memory(pid)) return;
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

std::string why_it_lives(pid_t pid) {
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), gone)) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    // NUMBER (NAME) STATE ...; a name may have brackets of its own.
    const std::size_t name_end = stat.rfind(") ");
    if (name_end == std::string::npos || name_end + 2 >= stat.size() || stat[name_end + 2] != 'D') continue;
    std::string where;
    std::getline(std::ifstream(task.path() / "wchan"), where);
    return fmt::format(
        "a thread of it waits in the kernel and cannot be woken{}: for a disk, a network file system or a device",
        where.empty() || where == "0" ? "" : fmt::format(" ({})", where));
  }
  return {};
}

}  // namespace muster::launch
