// The smallest of affinity mask and the quotas of both generations of cgroups, up to the root. decide_cores() is pure,
// so that machines which nobody has at hand can be tested.
#include "muster/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "muster/base/cgroup.h"

namespace muster {
namespace {

std::optional<double> quotient(const std::string& quota, const std::string& period) {
  double numbers[2] = {0, 0};
  const std::string* const texts[2] = {&quota, &period};
  for (int i = 0; i < 2; ++i) {
    const char* const end = texts[i]->data() + texts[i]->size();
    const auto parsed = std::from_chars(texts[i]->data(), end, numbers[i]);
    if (parsed.ec != std::errc{} || parsed.ptr != end || !std::isfinite(numbers[i]) || numbers[i] <= 0)
      return std::nullopt;  // "max", -1
  }
  return numbers[0] / numbers[1];
}

// Version 2: "max 100000" or "150000 100000".
std::optional<double> quota_v2(const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota;
  std::string period;
  file >> quota >> period;
  return quotient(quota, period);
}

std::optional<double> quota_v1(const std::filesystem::path& group) {
  std::string quota;
  std::string period;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return quotient(quota, period);
}

// The smallest quota of this process's group and of those above it.
std::optional<double> read_quota(const std::filesystem::path& root, const std::filesystem::path& membership) {
  std::optional<double> smallest;
  for (const CgroupFolder& group : cgroup_folders(root, membership, "cpu")) {
    const auto quota = group.version2 ? quota_v2(group.path) : quota_v1(group.path);
    if (quota && (!smallest || *quota < *smallest)) smallest = quota;
  }
  return smallest;
}

int cores_in_affinity_mask() {
  // The kernel refuses a mask with fewer bits than the machine may have cores.
  for (int bits = CPU_SETSIZE; bits <= 1 << 20; bits *= 4) {
    std::vector<cpu_set_t> mask(static_cast<std::size_t>(bits / CPU_SETSIZE));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
  }
  return 1;
}

}  // namespace

Cores decide_cores(int affinity, std::optional<double> quota, std::optional<int> granted) {
  Cores cores{std::max(1, affinity), fmt::format("{} in the affinity mask", affinity), {}};
  if (quota && std::floor(*quota) < cores.usable) {
    cores.usable = static_cast<int>(std::max(1.0, *quota));
    cores.reason = fmt::format("cgroup quota of {:.2f} cores", *quota);
  }
  if (granted && *granted < cores.usable) {
    cores.usable = std::max(1, *granted);
    cores.reason = fmt::format("{} granted by the scheduler", *granted);
  }
  cores.limits =
      fmt::format("affinity {}, cgroup quota {}, SLURM_CPUS_PER_TASK {}", affinity,
                  quota ? fmt::format("{:.2f}", *quota) : "none", granted ? std::to_string(*granted) : "not set");
  return cores;
}

std::optional<std::string> oversubscription(const Cores& cores, std::int64_t workers, std::int64_t threads) {
  if (workers * threads <= cores.usable) return std::nullopt;
  return fmt::format("{} workers of {} {} share {} {} ({}): the result is the same, but fewer would be as fast",
                     workers, threads, threads == 1 ? "thread" : "threads", cores.usable,
                     cores.usable == 1 ? "core" : "cores", cores.reason);
}

Cores usable_cores(std::optional<int> granted, const std::filesystem::path& cgroup_root,
                   const std::filesystem::path& membership) {
  return decide_cores(cores_in_affinity_mask(), read_quota(cgroup_root, membership), granted);
}

}  // namespace muster
