#include "muster/base/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string>

#include "muster/base/files.h"

namespace muster {
namespace {

struct Status {
  char state = '?';
  std::uint64_t threads = 0;
  std::uint64_t start_time = 0;
};

// Of /proc/PID/stat; nothing when there is no such process. Plain system calls: this runs inside waits.
std::optional<Status> read_status(std::int32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::array<char, 1024> buffer;
  const ssize_t length = ::read(file.get(), buffer.data(), buffer.size());
  if (length <= 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(length));
  // The program's name is in parentheses and may hold anything; fields are counted from behind its end. The state is
  // field 3, the number of threads field 20, the start time field 22.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return std::nullopt;
  Status status;
  status.state = text[name_end + 2];
  std::size_t at = name_end + 2;
  for (int field = 4; field <= 22; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string_view::npos) return std::nullopt;
    if (field == 20) std::from_chars(text.data() + at + 1, text.data() + text.size(), status.threads);
  }
  std::from_chars(text.data() + at + 1, text.data() + text.size(), status.start_time);
  return status;
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
  const std::optional<Status> status = read_status(pid);
  return {pid, status ? status->start_time : 0};
}

ProcessState state_of(const ProcessId& process) {
  const std::optional<Status> status = read_status(process.pid);
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
