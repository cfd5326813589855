// A processor group of the test's own, in which processes get next to no processor time: as on a machine with far too
// much to do, but without keeping others from theirs.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace muster::testing {

class StarvingGroup {
 public:
  // Why this machine, or this user, can have none; empty: it can. Such a test is skipped.
  static std::string obstacle() {
    if (::geteuid() != 0) return "needs root to make a processor group";
    return hierarchy() ? "" : "this machine has no processor groups";
  }
  StarvingGroup() : path_(*hierarchy() / fmt::format("muster-starving-{}", ::getpid())) {
    std::filesystem::create_directory(path_);
  }
  StarvingGroup(const StarvingGroup&) = delete;
  StarvingGroup& operator=(const StarvingGroup&) = delete;
  ~StarvingGroup() {
    feed();
    std::ifstream processes(path_ / "cgroup.procs");
    for (std::string pid; processes >> pid;)
      write(path_.parent_path() / "cgroup.procs", pid);
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  bool add(pid_t pid) { return write(path_ / "cgroup.procs", std::to_string(pid)); }
  // A thousandth of one processor for all together, from now on.
  bool starve() {
    return version2() ? write(path_ / "cpu.max", "1000 1000000")
                      : write(path_ / "cpu.cfs_period_us", "1000000") && write(path_ / "cpu.cfs_quota_us", "1000");
  }
  bool feed() { return version2() ? write(path_ / "cpu.max", "max 1000000") : write(path_ / "cpu.cfs_quota_us", "-1"); }

 private:
  static bool version2(const std::filesystem::path& root) {
    return std::filesystem::exists(root / "cgroup.controllers");
  }
  bool version2() const { return version2(path_); }
  static std::optional<std::filesystem::path> hierarchy() {
    for (const char* root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
      std::ifstream controllers(std::filesystem::path(root) / "cgroup.subtree_control");
      const std::string text{std::istreambuf_iterator<char>(controllers), {}};
      if (std::filesystem::exists(std::filesystem::path(root) / "cpu.cfs_quota_us") ||
          std::filesystem::exists(std::filesystem::path(root) / "cpu.shares") ||
          (" " + text).find(" cpu ") != std::string::npos)
        return root;
    }
    return std::nullopt;
  }
  static bool write(const std::filesystem::path& file, const std::string& text) {
    std::ofstream out(file);
    out << text << std::flush;
    return out.good();
  }

  const std::filesystem::path path_;
};

}  // namespace muster::testing
