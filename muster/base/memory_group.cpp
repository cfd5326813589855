// Both generations of cgroups behind one face: where the limit and the count of kills stand differs, what they mean
// does not. A group that cannot be seen has no limit and no kills.
#include "muster/base/memory_group.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/cgroup.h"
#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kRemovalTime{2};
constexpr std::chrono::milliseconds kRemovalPause{20};

const char* limit_file(bool version2) {
  return version2 ? "memory.max" : "memory.limit_in_bytes";
}
const char* events_file(bool version2) {
  return version2 ? "memory.events" : "memory.oom_control";
}

// Files of the kernel take a value in one write, and say no at once.
bool tell(const std::filesystem::path& file, const std::string& value) {
  std::ofstream out(file);
  out << value << std::flush;
  return out.good();
}

}  // namespace

std::optional<MemoryGroup> memory_group(const std::filesystem::path& membership, const std::filesystem::path& root) {
  std::error_code code;
  if (!std::filesystem::exists(membership, code)) return std::nullopt;
  for (const CgroupFolder& folder : cgroup_folders(root, membership, "memory")) {
    if (std::filesystem::exists(folder.path / events_file(folder.version2), code))
      return MemoryGroup{folder.path, folder.version2};
  }
  return std::nullopt;
}

std::optional<MemoryGroup> memory_group_of(std::int32_t pid) {
  return memory_group(fmt::format("/proc/{}/cgroup", pid));
}

std::uint64_t oom_kills(const MemoryGroup& group) {
  std::ifstream file(group.path / events_file(group.version2));
  std::string name;
  std::string value;
  while (file >> name >> value) {
    if (name == "oom_kill") return cgroup_number(value).value_or(0);
  }
  return 0;
}

std::optional<std::uint64_t> memory_limit(const MemoryGroup& group) {
  const char* const name = limit_file(group.version2);
  std::optional<std::uint64_t> tightest;
  for (std::filesystem::path folder = group.path; folder.has_relative_path(); folder = folder.parent_path()) {
    std::ifstream file(folder / name);
    if (!file && folder != group.path) break;  // above the hierarchy, or its root
    std::string text;
    file >> text;
    const std::optional<std::uint64_t> limit = cgroup_number(text);
    if (limit && *limit < kNoCgroupLimit) tightest = std::min(limit, tightest ? tightest : limit);
  }
  return tightest;
}

TemporaryMemoryGroup::TemporaryMemoryGroup(const MemoryGroup& beside) : home_(beside) {
  const std::filesystem::path parent = beside.version2 ? beside.path.parent_path() : beside.path;
  std::string name = (parent / "muster-chaos-XXXXXX").string();
  const char* const remedy = "It takes root and a memory controller that may be used; leave this fault out elsewhere.";
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(ErrorKind::kUnsupported, fmt::format("no memory group can be made: {}", std::strerror(errno)),
                parent.string(), remedy);
  group_ = {name, beside.version2};
  std::error_code code;
  if (std::filesystem::exists(group_.path / limit_file(group_.version2), code)) return;
  ::rmdir(name.c_str());
  throw Error(ErrorKind::kUnsupported, "groups there have no memory controller", parent.string(), remedy);
}

TemporaryMemoryGroup::~TemporaryMemoryGroup() {
  std::ifstream members(group_.path / "cgroup.procs");
  for (std::string pid; members >> pid;)
    tell(home_.path / "cgroup.procs", pid);
  // The kernel may need a moment for a process that has just died.
  const Deadline deadline = Deadline::after(kRemovalTime);
  while (::rmdir(group_.path.c_str()) != 0 && errno == EBUSY && !deadline.passed())
    system_clock().sleep_for(kRemovalPause);
}

bool TemporaryMemoryGroup::add(std::int32_t pid) {
  return tell(group_.path / "cgroup.procs", std::to_string(pid));
}

bool TemporaryMemoryGroup::set_limit(std::uint64_t bytes) {
  return tell(group_.path / limit_file(group_.version2), std::to_string(bytes));
}

bool TemporaryMemoryGroup::squeeze() {
  if (set_limit(0)) return true;
  std::string held;
  std::ifstream(group_.path / (group_.version2 ? "memory.current" : "memory.usage_in_bytes")) >> held;
  return set_limit(cgroup_number(held).value_or(0));
}

}  // namespace muster
