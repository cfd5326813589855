// Reads what /proc says of a process. The proportional figure counts a shared page once over all who have it, so that
// the figures of a job's processes can be added up.
#include "muster/base/process_memory.h"

#include <fstream>
#include <string>

#include <fmt/format.h>

namespace muster {
namespace {

// Of a line "Name:   123 kB", in bytes.
std::uint64_t bytes_of_field(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == name && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

ProcessMemory process_memory(const std::filesystem::path& status) {
  return {.anonymous_bytes = bytes_of_field(status, "RssAnon:"), .file_bytes = bytes_of_field(status, "RssFile:")};
}

std::uint64_t peak_bytes(std::int32_t pid) {
  return bytes_of_field(fmt::format("/proc/{}/status", pid), "VmHWM:");
}

std::uint64_t proportional_bytes(std::int32_t pid) {
  return bytes_of_field(fmt::format("/proc/{}/smaps_rollup", pid), "Pss:");
}

ProcessMemory proportional_memory(std::int32_t pid) {
  const std::string rollup = fmt::format("/proc/{}/smaps_rollup", pid);
  return {.anonymous_bytes = bytes_of_field(rollup, "Pss_Anon:") + bytes_of_field(rollup, "Pss_Shmem:"),
          .file_bytes = process_memory(fmt::format("/proc/{}/status", pid)).file_bytes};
}

}  // namespace muster
