// The least of what the machine and every control group above this process leave. decide_memory() is pure, so that
// machines which nobody has at hand can be tested.
#include "muster/base/memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "muster/base/cgroup.h"
#include "muster/base/text.h"

namespace muster {
namespace {

std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  std::string text;
  std::ifstream(path) >> text;
  return cgroup_number(text);
}

// The number behind `name` in a file of lines "name number".
std::uint64_t read_field(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  std::string value;
  while (file >> key >> value) {
    if (key == name) return cgroup_number(value).value_or(0);
  }
  return 0;
}

struct GroupFiles {
  const char* limit;
  const char* use;
  const char* cache[2];  // fields of memory.stat
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr GroupFiles kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};

std::optional<std::uint64_t> room_of(const std::filesystem::path& group, const GroupFiles& files) {
  const auto limit = read_number(group / files.limit);
  if (!limit || *limit >= kNoCgroupLimit) return std::nullopt;
  const std::uint64_t use = read_number(group / files.use).value_or(0);
  std::uint64_t cache = 0;
  for (const char* const field : files.cache)
    cache += std::min(read_field(group / "memory.stat", field), kNoCgroupLimit);
  const std::uint64_t held = use - std::min(use, cache);
  return *limit - std::min(*limit, held);
}

// The least room of this process's group and of those above it.
std::optional<std::uint64_t> read_room(const std::filesystem::path& root, const std::filesystem::path& membership) {
  std::optional<std::uint64_t> least;
  for (const CgroupFolder& group : cgroup_folders(root, membership, "memory")) {
    const auto room = room_of(group.path, group.version2 ? kVersion2 : kVersion1);
    if (room && (!least || *room < *least)) least = room;
  }
  return least;
}

// "MemAvailable:   24213800 kB"
std::optional<std::uint64_t> read_available(const std::filesystem::path& meminfo) {
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {
    const std::string name = "MemAvailable:";
    if (line.rfind(name, 0) != 0) continue;
    const std::size_t begin = line.find_first_not_of(' ', name.size());
    if (begin == std::string::npos) return std::nullopt;
    const auto kibibytes = cgroup_number(line.substr(begin, line.find(' ', begin) - begin));
    if (!kibibytes || *kibibytes >= kNoCgroupLimit / 1024) return std::nullopt;
    return *kibibytes * 1024;
  }
  return std::nullopt;
}

}  // namespace

Memory decide_memory(std::optional<std::uint64_t> available, std::optional<std::uint64_t> group_room) {
  if (group_room && (!available || *group_room < *available))
    return {*group_room, fmt::format("{} left below the cgroup's limit", human_bytes(*group_room))};
  if (available) return {*available, fmt::format("{} available on this machine", human_bytes(*available))};
  return {std::numeric_limits<std::uint64_t>::max(), "no limit is known"};
}

Memory usable_memory(const std::filesystem::path& meminfo, const std::filesystem::path& cgroup_root,
                     const std::filesystem::path& membership) {
  return decide_memory(read_available(meminfo), read_room(cgroup_root, membership));
}

}  // namespace muster
