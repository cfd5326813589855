// A number of a process is used again after its end, so identity is number and start time. A zombie counts as gone only
// when its last thread has ended: until then it has its memory and its locks.
#include "muster/base/process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <span>
#include <string>

#include "muster/base/hash.h"
#include "muster/base/proc_stat.h"

namespace muster {
namespace {

std::optional<ProcStat> read_status(std::int32_t pid) {
  return read_proc_stat("/proc/" + std::to_string(pid) + "/stat");
}

}  // namespace

std::string_view to_string(ProcessState state) {
  switch (state) {
    case ProcessState::kRunning:
      return "running";
    case ProcessState::kStopped:
      return "stopped";
    case ProcessState::kGone:
      return "gone";
  }
  return "unknown";
}

void outlive_parent() {
  ::prctl(PR_SET_PDEATHSIG, 0);
}

ProcessId this_process() {
  return process_of(static_cast<std::int32_t>(::getpid()));
}

ProcessId process_of(std::int32_t pid) {
  const std::optional<ProcStat> status = read_status(pid);
  return {pid, status ? status->start_time : 0};
}

std::string process_space() {
  std::array<char, 64> space{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", space.data(), space.size());
  std::string text(space.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  boot >> id;
  text += " " + id;
  return sha256(std::as_bytes(std::span(text))).substr(0, 16);
}

ProcessState state_of(const ProcessId& process) {
  const std::optional<ProcStat> status = read_status(process.pid);
  if (!status) {
    // No entry: gone, unless /proc itself cannot be seen.
    return ::kill(process.pid, 0) != 0 && errno == ESRCH ? ProcessState::kGone : ProcessState::kRunning;
  }
  if (process.start_time != 0 && status->start_time != process.start_time) return ProcessState::kGone;
  if (status->state == 'Z' || status->state == 'X' || status->state == 'x') {
    // Its first thread has ended. As long as others live they have its memory, its files and the locks on them.
    return status->threads > 1 ? ProcessState::kRunning : ProcessState::kGone;
  }
  return status->state == 'T' || status->state == 't' ? ProcessState::kStopped : ProcessState::kRunning;
}

}  // namespace muster
