// The line that the kernel keeps about a process or a thread (/proc/PID/stat), as far as we look at it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace muster {

struct ProcStat {
  char state = '?';
  std::int32_t parent = 0;
  std::int32_t group = 0;
  std::uint64_t threads = 0;
  std::uint64_t start_time = 0;          // since boot, in the kernel's ticks
  std::chrono::nanoseconds processor{};  // given so far
};

// Nothing when there is no such file. Plain system calls: this runs inside waits.
std::optional<ProcStat> read_proc_stat(const std::string& path);

}  // namespace muster
