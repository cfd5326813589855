#include "muster/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

namespace muster {
namespace {

std::optional<double> read_quota(const std::filesystem::path& root) {
  // v2: "max 100000" or "150000 100000".
  std::ifstream v2(root / "cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period) {
    if (quota == "max" || period <= 0) return std::nullopt;
    try {
      return std::stod(quota) / period;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  double quota_us = 0;
  std::ifstream v1_quota(root / "cpu" / "cpu.cfs_quota_us");
  std::ifstream v1_period(root / "cpu" / "cpu.cfs_period_us");
  if ((v1_quota >> quota_us) && (v1_period >> period) && quota_us > 0 && period > 0) return quota_us / period;
  return std::nullopt;
}

}  // namespace

Cores decide_cores(int affinity, std::optional<double> quota, std::optional<int> granted) {
  Cores cores{std::max(1, affinity), fmt::format("{} in the affinity mask", affinity)};
  if (quota && static_cast<int>(*quota) < cores.usable) {
    cores = {std::max(1, static_cast<int>(*quota)), fmt::format("cgroup quota of {:.2f} cores", *quota)};
  }
  if (granted && *granted < cores.usable) {
    cores = {std::max(1, *granted), fmt::format("{} granted by the scheduler", *granted)};
  }
  return cores;
}

Cores usable_cores(std::optional<int> granted, const std::filesystem::path& cgroup_root) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int affinity = sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return decide_cores(affinity, read_quota(cgroup_root), granted);
}

}  // namespace muster
