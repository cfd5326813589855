// Control groups: the folders of the groups whose limits hold for this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace muster {

struct CgroupFolder {
  std::filesystem::path path;
  bool version2 = true;  // the files in it are those of version 2; else of version 1
};

// This process's group and every group above it: in the hierarchy of version 2, below `root`, and in that of version 1
// which has `controller`, below root/controller. Which group it is stands in `membership`, as /proc/self/cgroup:
// "0::/a/b" is version 2, "3:cpu,cpuacct:/a/b" version 1. Folders need not exist.
std::vector<CgroupFolder> cgroup_folders(const std::filesystem::path& root, const std::filesystem::path& membership,
                                         std::string_view controller);

// A value as files of groups have it; empty where there is no number, as in "max".
std::optional<std::uint64_t> cgroup_number(std::string_view text);
// From here on a number says that there is no limit: version 1 writes the largest page-aligned one.
inline constexpr std::uint64_t kNoCgroupLimit = std::uint64_t{1} << 60;

}  // namespace muster
