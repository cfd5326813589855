// What belongs to the job is noted while it lives, from the environment and the descriptors of its processes;
// afterwards each is looked for again by that, so that another job on the machine is never blamed.
#include "muster/cli/chaos/footprints.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace muster::cli {
namespace {

constexpr std::string_view kStoreVariable = "MUSTER_STORE=";
constexpr std::string_view kSocketLink = "socket:[";

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code))
    names.insert(entry.path().filename().string());
  return names;
}

// The job's folder for its own use, from a worker's environment.
std::optional<std::string> job_folder_of(const std::filesystem::path& process) {
  std::ifstream file(process / "environ");
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (variable.starts_with(kStoreVariable))
      return std::filesystem::path(variable.substr(kStoreVariable.size())).parent_path().string();
  }
  return std::nullopt;
}

// Inode to name, of abstract Unix sockets that are named as ours are.
std::map<std::string, std::string> named_sockets() {
  std::map<std::string, std::string> sockets;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    const std::size_t name = line.find("@muster-");
    if (name == std::string::npos) continue;
    std::istringstream fields(line.substr(0, name));
    std::string inode;
    while (fields >> inode) {  // the last field before the name
    }
    sockets[inode] = line.substr(name);
  }
  return sockets;
}

}  // namespace

Footprints::Footprints(std::filesystem::path run, std::filesystem::path shared_memory)
    : run_(std::move(run)), shared_memory_(std::move(shared_memory)), shared_before_(names_in(shared_memory_)) {
}

void Footprints::add(const ProcessId& process) {
  if (process.pid <= 0 || process.start_time == 0) return;
  const auto [entry, fresh] = processes_.try_emplace(process.pid, process);
  if (!fresh && entry->second == process) return;
  if (!fresh) earlier_.push_back(std::exchange(entry->second, process));
  if (const auto folder = job_folder_of(fmt::format("/proc/{}", process.pid))) folders_.insert(*folder);
}

void Footprints::add_store(const std::filesystem::path& store) {
  if (!store.empty()) folders_.insert(store.parent_path().string());
}

void Footprints::look() {
  const std::map<std::string, std::string> sockets = named_sockets();
  for (const auto& [pid, process] : processes_) {
    if (state_of(process) == ProcessState::kGone) continue;
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), code)) {
      const std::string target = std::filesystem::read_symlink(entry.path(), code).string();
      if (code || !target.starts_with(kSocketLink)) continue;
      const auto found = sockets.find(target.substr(kSocketLink.size(), target.size() - kSocketLink.size() - 1));
      if (found != sockets.end()) sockets_.insert(found->second);
    }
  }
}

std::vector<std::string> Footprints::left() const {
  std::vector<std::string> left;
  std::vector<ProcessId> known = earlier_;
  for (const auto& [pid, process] : processes_)
    known.push_back(process);
  for (const ProcessId& process : known)
    if (state_of(process) != ProcessState::kGone) left.push_back(fmt::format("process {}", process.pid));
  // Names of abstract sockets are random, and there only as long as somebody holds them.
  for (const auto& [inode, name] : named_sockets())
    if (sockets_.contains(name)) left.push_back("socket " + name);
  std::error_code code;
  for (const std::string& folder : folders_)
    if (std::filesystem::exists(folder, code)) left.push_back("folder " + folder);
  for (const auto& entry : std::filesystem::directory_iterator("/proc", code)) {
    std::int32_t pid = 0;
    const std::string name = entry.path().filename().string();
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid <= 0 || processes_.contains(pid)) continue;
    const auto folder = job_folder_of(entry.path());
    if (folder && folders_.contains(*folder) && state_of({pid, 0}) != ProcessState::kGone)
      left.push_back(fmt::format("process {}, which no status named", pid));
  }
  for (const std::string& name : names_in(shared_memory_))
    if (!shared_before_.contains(name) && name.find("muster") != std::string::npos)
      left.push_back("shared memory " + (shared_memory_ / name).string());
  for (const std::string& name : names_in(run_ / "checkpoints"))
    if (name.starts_with(".")) left.push_back("a checkpoint that was begun, " + name);
  return left;
}

}  // namespace muster::cli
