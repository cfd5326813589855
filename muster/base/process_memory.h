// How much memory a process holds, as the kernel counts it. What cannot be read is 0.
#pragma once

#include <cstdint>
#include <filesystem>

namespace muster {

struct ProcessMemory {
  std::uint64_t anonymous_bytes = 0;  // of its own: heap, stacks, what libraries have changed
  std::uint64_t file_bytes = 0;       // pages of programs and libraries, which processes of one program share
};

// `status` is a /proc/PID/status.
ProcessMemory process_memory(const std::filesystem::path& status = "/proc/self/status");

// The most that the process has held at a time, pages that it shares with others included.
std::uint64_t peak_bytes(std::int32_t pid);

// What the process has for itself and its part of what it shares with others (PSS).
std::uint64_t proportional_bytes(std::int32_t pid);

// The same in its two parts, but for pages of files, which are all there: a program that has nothing to do with this
// one and uses the same libraries would otherwise change what is said of this one.
ProcessMemory proportional_memory(std::int32_t pid);

}  // namespace muster
