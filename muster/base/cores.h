// How many cores this process may really use: affinity mask and cgroup quota, not what the machine has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace muster {

struct Cores {
  int usable = 1;      // at least 1
  std::string reason;  // in words, for logs and `muster info`
  std::string limits;  // everything that was looked at, in words
};

// The decision, pure: `affinity` cores in the mask, `quota` cores of the cgroup (fractional), `granted` by a
// scheduler (SLURM_CPUS_PER_TASK, read by the caller). The smallest wins, rounded down, never below 1.
Cores decide_cores(int affinity, std::optional<double> quota, std::optional<int> granted);

// What to tell people when workers x threads need more cores than there are; nothing when they do not. Pure.
std::optional<std::string> oversubscription(const Cores& cores, std::int64_t workers, std::int64_t threads);

// Reads affinity and the quotas of this process's cgroup and of all groups above it (v2 and v1 below `cgroup_root`;
// which group it is stands in `membership`), and decides. What cannot be read is no limit.
Cores usable_cores(std::optional<int> granted = std::nullopt,
                   const std::filesystem::path& cgroup_root = "/sys/fs/cgroup",
                   const std::filesystem::path& membership = "/proc/self/cgroup");

}  // namespace muster
