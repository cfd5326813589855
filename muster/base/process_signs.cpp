// Counters of /proc, summed over threads and over all that a process has started. They are not read at one moment: what
// ends or is forbidden meanwhile is left out, never an error.
#include "muster/base/process_signs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/files.h"
#include "muster/base/proc_stat.h"

namespace muster {
namespace {

constexpr int kMostAncestors = 64;  // /proc is not read at one moment: what looks like a circle ends

std::string read_small(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer;
  const ssize_t length = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  return {buffer.data(), static_cast<std::size_t>(length > 0 ? length : 0)};
}

// Calls `visit` with every entry of a folder of /proc whose name is a number.
template <typename Visit>
void for_each_number(const std::string& folder, const Visit& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (!entries) return;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    std::int32_t number = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (code == std::errc() && end == name.data() + name.size()) visit(number, folder + "/" + entry->d_name);
  }
}

std::uint64_t field_of(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  std::uint64_t value = 0;
  if (at != std::string_view::npos) std::from_chars(text.data() + at + name.size(), text.data() + text.size(), value);
  return value;
}

}  // namespace

void name_heartbeat_thread() {
  ::prctl(PR_SET_NAME, kHeartbeatThread);
}

ProcessSigns signs_of(const ProcessId& process) {
  ProcessSigns signs;
  signs.state = state_of(process);
  if (signs.state == ProcessState::kGone) return signs;
  const std::string folder = "/proc/" + std::to_string(process.pid);
  const std::optional<ProcStat> whole = read_proc_stat(folder + "/stat");
  if (!whole) {
    signs.wants = signs.works = true;  // one that cannot be looked at is not judged
    return signs;
  }
  signs.processor = whole->processor;
  for_each_number(folder + "/task", [&](std::int32_t, const std::string& thread) {
    const std::optional<ProcStat> stat = read_proc_stat(thread + "/stat");
    if (!stat || (stat->state != 'R' && stat->state != 'D')) return;
    signs.wants = true;
    if (stat->state == 'R' && !read_small(thread + "/comm").starts_with(kHeartbeatThread)) signs.works = true;
  });
  return signs;
}

GroupWork work_of_group(std::int32_t group) {
  GroupWork work;
  int processes = 0;
  int stopped = 0;
  for_each_number("/proc", [&](std::int32_t, const std::string& process) {
    const std::optional<ProcStat> stat = read_proc_stat(process + "/stat");
    if (!stat || stat->group != group) return;
    ++processes;
    stopped += stat->state == 'T' ? 1 : 0;
    work.processor += stat->processor;
    // What it asked for, from caches too, and what went to and from disks when memory is mapped.
    const std::string io = read_small(process + "/io");
    work.bytes += field_of(io, "rchar: ") + field_of(io, "wchar: ") + field_of(io, "\nread_bytes: ") +
                  field_of(io, "\nwrite_bytes: ");
  });
  work.stopped = processes > 0 && stopped == processes;
  return work;
}

bool descends_from(std::int32_t process, std::int32_t ancestor) {
  for (int generation = 0; generation < kMostAncestors && process > 1; ++generation) {
    const std::optional<ProcStat> stat = read_proc_stat("/proc/" + std::to_string(process) + "/stat");
    if (!stat) return false;
    process = stat->parent;
    if (process == ancestor) return true;
  }
  return false;
}

}  // namespace muster
