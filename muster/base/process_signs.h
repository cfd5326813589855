// What can be seen of another process from outside, beside whether it lives (process.h): whether it wants to run, and
// what the machine has given it. A process that is starved looks silent to whoever waits for it; these tell the two
// apart.
#pragma once

#include <chrono>
#include <cstdint>

#include "muster/base/process.h"

namespace muster {

// The thread of a worker that does nothing but give signs of life has this name: that it wants to run says nothing
// about the others.
constexpr const char* kHeartbeatThread = "muster-beat";
void name_heartbeat_thread();  // the calling one

struct ProcessSigns {
  ProcessState state = ProcessState::kGone;
  bool wants = false;  // a thread runs, waits for a processor, or waits in the kernel for a disk or for memory
  bool works = false;  // a thread that is not the heartbeat's runs or waits for a processor
  std::chrono::nanoseconds processor{};  // time that all of its threads were given since it was started
};
ProcessSigns signs_of(const ProcessId& process);

// What a process group has done so far: a process that was started in a group of its own, and all it has started.
struct GroupWork {
  std::chrono::nanoseconds processor{};
  std::uint64_t bytes = 0;  // read and written, as far as that can be seen
  bool stopped = false;     // every process of it
  bool operator==(const GroupWork&) const = default;
};
GroupWork work_of_group(std::int32_t group);

// Whether `process` was started by `ancestor`, by one that it has started, and so on.
bool descends_from(std::int32_t process, std::int32_t ancestor);

}  // namespace muster
