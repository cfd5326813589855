// Masks and quotas of both generations of cgroups, laid out in a folder of the test's own.
#include "muster/base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/sandbox.h"

namespace muster {
namespace {

using testing::spill;
using testing::TemporaryFolder;

TEST(DecideCores, TheSmallestLimitWins) {
  struct Row {
    int affinity;
    std::optional<double> quota;
    std::optional<int> granted;
    int usable;
    std::string word;  // of the reason
  };
  const double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<Row> table{
      {8, {}, {}, 8, "affinity"},
      {1, {}, {}, 1, "affinity"},
      {0, {}, {}, 1, "affinity"},
      {8, 4.0, {}, 4, "quota"},
      {8, 2.9, {}, 2, "quota"},
      {8, 0.5, {}, 1, "quota"},
      {8, 8.0, {}, 8, "affinity"},
      {8, 64.0, {}, 8, "affinity"},
      {8, 1e300, {}, 8, "affinity"},
      {8, kInfinity, {}, 8, "affinity"},
      {8, std::nan(""), {}, 8, "affinity"},
      {8, {}, 3, 3, "scheduler"},
      {8, {}, 0, 1, "scheduler"},
      {8, {}, -4, 1, "scheduler"},
      {8, {}, 9, 8, "affinity"},
      {8, 4.0, 2, 2, "scheduler"},
      {8, 2.0, 4, 2, "quota"},
      {2, 4.0, 6, 2, "affinity"},
  };
  for (const Row& row : table) {
    const Cores cores = decide_cores(row.affinity, row.quota, row.granted);
    const std::string name = "affinity " + std::to_string(row.affinity) + ", reason: " + cores.reason;
    EXPECT_EQ(cores.usable, row.usable) << name;
    EXPECT_NE(cores.reason.find(row.word), std::string::npos) << name;
  }
}

TEST(DecideCores, TellsEverythingThatItLookedAt) {
  EXPECT_EQ(decide_cores(8, 2.5, 4).limits, "affinity 8, cgroup quota 2.50, SLURM_CPUS_PER_TASK 4");
  EXPECT_EQ(decide_cores(2, {}, {}).limits, "affinity 2, cgroup quota none, SLURM_CPUS_PER_TASK not set");
}

TEST(Oversubscription, IsToldOfOnlyWhenThereAreTooFewCores) {
  const Cores two = decide_cores(2, {}, {});
  EXPECT_FALSE(oversubscription(two, 2, 1));
  EXPECT_FALSE(oversubscription(two, 1, 2));
  const std::string warning = oversubscription(two, 2, 2).value_or("");
  EXPECT_NE(warning.find("2 workers of 2 threads share 2 cores (2 in the affinity mask)"), std::string::npos)
      << warning;
  EXPECT_TRUE(oversubscription(two, 3, 1));
}

// The cores of this process's affinity mask: what a quota can only make smaller.
int in_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  return CPU_COUNT(&mask);
}

class UsableCores : public ::testing::Test {
 protected:
  // What usable_cores says with `text` in file `name` below the root and `membership` as /proc/self/cgroup.
  void given(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    spill(root_ / name, text);
  }
  Cores cores(const std::string& membership = "0::/\n") {
    spill(root_ / "membership", membership);
    return usable_cores(std::nullopt, root_.path(), root_ / "membership");
  }

  TemporaryFolder root_;
};

TEST_F(UsableCores, WithoutCgroupsAreTheAffinityMask) {
  EXPECT_EQ(cores().usable, in_mask());
  EXPECT_EQ(usable_cores(std::nullopt, root_ / "missing", root_ / "missing").usable, in_mask());
  EXPECT_EQ(usable_cores(1, root_ / "missing", root_ / "missing").usable, 1);
}

TEST_F(UsableCores, ReadsTheQuotaOfVersion2) {
  given("cpu.max", "100000 100000\n");
  EXPECT_EQ(cores().usable, 1);
  EXPECT_EQ(cores().reason, in_mask() > 1 ? "cgroup quota of 1.00 cores" : cores().reason);
}

TEST_F(UsableCores, MaxIsNoQuota) {
  given("cpu.max", "max 100000\n");
  EXPECT_EQ(cores().usable, in_mask());
}

TEST_F(UsableCores, ReadsTheQuotaOfVersion1) {
  given("cpu/cpu.cfs_quota_us", "50000\n");
  given("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores().usable, 1);
  given("cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cores().usable, in_mask());
}

// A service of systemd has its quota in its own group, or in one of the groups above it.
TEST_F(UsableCores, ReadsTheGroupThisProcessIsInAndAllAboveIt) {
  given("user.slice/job.service/cpu.max", "max 100000\n");
  given("user.slice/cpu.max", "max 100000\n");
  const std::string membership = "12:memory:/elsewhere\n0::/user.slice/job.service\n";
  EXPECT_EQ(cores(membership).usable, in_mask());
  given("user.slice/job.service/cpu.max", "100000 100000\n");
  EXPECT_EQ(cores(membership).usable, 1);
  given("user.slice/job.service/cpu.max", "max 100000\n");
  given("user.slice/cpu.max", "100000 100000\n");
  EXPECT_EQ(cores(membership).usable, 1);
}

TEST_F(UsableCores, ReadsTheGroupOfVersion1ThatHasTheProcessorController) {
  given("cpu/docker/abc/cpu.cfs_quota_us", "100000\n");
  given("cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores("4:memory:/docker/xyz\n3:cpu,cpuacct:/docker/abc\n").usable, 1);
  EXPECT_EQ(cores("4:memory:/docker/abc\n3:cpuset:/docker/abc\n").usable, in_mask());
}

TEST_F(UsableCores, IgnoresNonsense) {
  for (const std::string text : {"", "max", "-1 100000", "100000 0", "100000 -5", "x 100000", "nan 100000", "inf 1",
                                 "0 100000", "100000 nan", "1e999 1"}) {
    given("cpu.max", text);
    EXPECT_EQ(cores().usable, in_mask()) << text;
  }
  EXPECT_EQ(cores("").usable, in_mask());
  EXPECT_EQ(cores("0:").usable, in_mask());
  EXPECT_EQ(cores("0::../../..\n").usable, in_mask());
}

}  // namespace
}  // namespace muster
