// The control group that accounts for a process's memory: its limit, and whether the kernel has killed in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace muster {

struct MemoryGroup {
  std::filesystem::path path;
  bool version2 = true;  // as in cgroup.h
  bool operator==(const MemoryGroup&) const = default;
};

// The nearest group of the process that has the memory controller, version 2 before version 1; nothing when there is
// none or the process is gone. `membership` is its /proc/PID/cgroup.
std::optional<MemoryGroup> memory_group(const std::filesystem::path& membership,
                                        const std::filesystem::path& root = "/sys/fs/cgroup");
std::optional<MemoryGroup> memory_group_of(std::int32_t pid);

// How many processes of the group the kernel has killed so far because memory ran out; 0 when that cannot be read.
std::uint64_t oom_kills(const MemoryGroup& group);
// The tightest limit of the group and of those above it, in bytes; nothing when there is none.
std::optional<std::uint64_t> memory_limit(const MemoryGroup& group);

// A group for a while, for processes whose memory is to run out. Removed at the end of the scope; who is still in it
// goes back to where the group was made. Thread safety: one thread.
class TemporaryMemoryGroup {
 public:
  // Below `beside` (version 1), or beside it (version 2, where a group with processes has no groups below it). Throws
  // kUnsupported with the reason when groups cannot be made here: it takes root, and the memory controller.
  explicit TemporaryMemoryGroup(const MemoryGroup& beside);
  TemporaryMemoryGroup(const TemporaryMemoryGroup&) = delete;
  TemporaryMemoryGroup& operator=(const TemporaryMemoryGroup&) = delete;
  ~TemporaryMemoryGroup();

  const MemoryGroup& group() const { return group_; }
  // False: the process is gone.
  bool add(std::int32_t pid);
  // Moves nobody's memory: what a process took before it was added does not count. False: the kernel refuses a limit
  // below what the group holds (version 1).
  bool set_limit(std::uint64_t bytes);
  // The lowest limit that the kernel takes: 0, or what the group holds.
  bool squeeze();

 private:
  MemoryGroup home_;
  MemoryGroup group_;
};

}  // namespace muster
