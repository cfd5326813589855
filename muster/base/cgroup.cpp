// Finds this process's group in /proc/self/cgroup and gives its folder and those above it: a limit may stand on any of
// them, and the smallest one holds.
#include "muster/base/cgroup.h"

#include <charconv>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace muster {
namespace {

std::filesystem::path own_group(const std::filesystem::path& membership, std::string_view controller, bool version2) {
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    if (version2 ? controllers == ",," : controllers.find(fmt::format(",{},", controller)) != std::string::npos)
      return std::filesystem::path(line.substr(second + 1)).lexically_normal().relative_path();
  }
  return {};
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(const std::filesystem::path& root, const std::filesystem::path& membership,
                                         std::string_view controller) {
  std::vector<CgroupFolder> folders;
  for (const bool version2 : {true, false}) {
    const std::filesystem::path top = version2 ? root : root / controller;
    for (std::filesystem::path group = own_group(membership, controller, version2);; group = group.parent_path()) {
      folders.push_back({top / group, version2});
      if (group.empty()) break;
    }
  }
  return folders;
}

std::optional<std::uint64_t> cgroup_number(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

}  // namespace muster
