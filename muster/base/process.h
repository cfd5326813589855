// Other processes of this machine: which one, and whether it still runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// A process that cannot be confused with a later one of the same number.
struct ProcessId {
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // since boot, in the kernel's ticks
  bool operator==(const ProcessId&) const = default;
};

enum class ProcessState { kRunning, kStopped, kGone };

std::string_view to_string(ProcessState state);

// From now on this process does not end with the one that started it (launch/child_process.h).
void outlive_parent();

ProcessId this_process();
// The process that has this number now; start time 0 if there is none.
ProcessId process_of(std::int32_t pid);

// Where the numbers of processes mean what they mean here: this machine since it was started, and this pid namespace.
// 16 hexadecimal digits.
std::string process_space();

// A zombie is gone: it executes nothing any more. A process that cannot be looked at (another pid namespace, no /proc)
// counts as running: an observer that cannot see judges nobody.
ProcessState state_of(const ProcessId& process);

}  // namespace muster
