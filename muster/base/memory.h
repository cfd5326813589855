// How much memory this process may still take: what the machine has left and what its cgroups leave, not what is
// fitted.
//
// Shared memory is not refused when there is too little: the kernel lets it be mapped and kills whoever touches one
// page too many. So whoever takes much asks here first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace muster {

struct Memory {
  std::uint64_t usable_bytes = 0;
  std::string reason;  // in words, for messages and logs
};

// The decision, pure: `available` bytes of the machine, `group_room` bytes below the tightest cgroup limit. The smaller
// wins; an unknown one is no limit.
Memory decide_memory(std::optional<std::uint64_t> available, std::optional<std::uint64_t> group_room);

// Reads MemAvailable and the limits of this process's cgroup and of all groups above it (v2 and v1 below `cgroup_root`;
// which group it is stands in `membership`), and decides. A group's room is its limit less its use, where file cache
// is not use: the kernel gives it back. What cannot be read is no limit.
Memory usable_memory(const std::filesystem::path& meminfo = "/proc/meminfo",
                     const std::filesystem::path& cgroup_root = "/sys/fs/cgroup",
                     const std::filesystem::path& membership = "/proc/self/cgroup");

}  // namespace muster
