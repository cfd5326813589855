// Files of both generations of cgroups, laid out in a folder of the test's own.
#include "muster/base/memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/sandbox.h"

namespace muster {
namespace {

using testing::spill;
using testing::TemporaryFolder;

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

TEST(DecideMemory, TheSmallerLimitWins) {
  struct Row {
    std::optional<std::uint64_t> available;
    std::optional<std::uint64_t> group_room;
    std::uint64_t usable;
    std::string word;  // of the reason
  };
  const std::vector<Row> table{
      {1000, {}, 1000, "machine"}, {1000, 999, 999, "cgroup"},     {1000, 1000, 1000, "machine"},
      {1000, 0, 0, "cgroup"},      {0, 1000, 0, "machine"},        {0, {}, 0, "machine"},
      {{}, 5, 5, "cgroup"},        {{}, {}, kUnknown, "no limit"},
  };
  for (const Row& row : table) {
    const Memory memory = decide_memory(row.available, row.group_room);
    EXPECT_EQ(memory.usable_bytes, row.usable) << memory.reason;
    EXPECT_NE(memory.reason.find(row.word), std::string::npos) << memory.reason;
  }
}

TEST(DecideMemory, SaysTheFigure) {
  EXPECT_EQ(decide_memory(3'000'000'000, 2'500'000'000).reason, "2.5 GB left below the cgroup's limit");
}

class UsableMemory : public ::testing::Test {
 protected:
  void given(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    spill(root_ / name, text);
  }
  std::uint64_t usable(const std::string& membership = "0::/\n") {
    spill(root_ / "membership", membership);
    return usable_memory(root_ / "meminfo", root_.path(), root_ / "membership").usable_bytes;
  }

  TemporaryFolder root_;
};

TEST_F(UsableMemory, WithoutAnyFileIsUnknown) {
  EXPECT_EQ(usable(), kUnknown);
}

TEST_F(UsableMemory, OfThisMachineIsKnown) {
  const Memory memory = usable_memory();
  EXPECT_GT(memory.usable_bytes, 0U);
  EXPECT_LT(memory.usable_bytes, std::uint64_t{1} << 60) << memory.reason;
}

TEST_F(UsableMemory, ReadsWhatTheMachineHasLeft) {
  given("meminfo", "MemTotal:       24611000 kB\nMemFree:  10 kB\nMemAvailable:   24213800 kB\nBuffers: 3 kB\n");
  EXPECT_EQ(usable(), 24213800ULL * 1024);
}

TEST_F(UsableMemory, OfAGroupIsLimitLessUse) {
  given("memory.max", "1000000\n");
  EXPECT_EQ(usable(), 1000000U);
  given("memory.current", "400000\n");
  EXPECT_EQ(usable(), 600000U);
  given("memory.current", "1000001\n");
  EXPECT_EQ(usable(), 0U);
  given("memory.max", "max\n");
  EXPECT_EQ(usable(), kUnknown);
}

TEST_F(UsableMemory, DoesNotCountFileCacheAsUse) {
  given("memory.max", "1000000\n");
  given("memory.current", "900000\n");
  given("memory.stat", "anon 500000\nactive_file 100000\ninactive_file 200000\nshmem 7\n");
  EXPECT_EQ(usable(), 400000U);
  given("memory.stat", "active_file 18446744073709551615\ninactive_file 18446744073709551615\n");
  EXPECT_EQ(usable(), 1000000U);
}

TEST_F(UsableMemory, ReadsTheGroupThisProcessIsInAndAllAboveIt) {
  given("meminfo", "MemAvailable: 1000 kB\n");
  given("user.slice/memory.max", "500000\n");
  given("user.slice/memory.current", "200000\n");
  given("user.slice/job.service/memory.max", "max\n");
  const std::string membership = "12:cpu:/elsewhere\n0::/user.slice/job.service\n";
  EXPECT_EQ(usable(membership), 300000U);
  given("user.slice/job.service/memory.max", "100000\n");
  EXPECT_EQ(usable(membership), 100000U);
  EXPECT_EQ(usable("0::/other.slice\n"), 1024000U);
}

TEST_F(UsableMemory, ReadsVersion1) {
  given("memory/docker/abc/memory.limit_in_bytes", "700000\n");
  given("memory/docker/abc/memory.usage_in_bytes", "300000\n");
  given("memory/docker/abc/memory.stat", "active_file 9\ntotal_active_file 60000\ntotal_inactive_file 40000\n");
  given("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(usable("4:hugetlb,memory:/docker/abc\n3:cpu:/docker/xyz\n"), 500000U);
  EXPECT_EQ(usable("3:cpu:/docker/abc\n"), kUnknown);
}

TEST_F(UsableMemory, IgnoresNonsense) {
  for (const std::string text : {"", "max", "-1", "12x", "nan", "99999999999999999999999"}) {
    given("memory.max", text);
    given("meminfo", "MemAvailable: " + text + " kB\n");
    EXPECT_EQ(usable(), kUnknown) << text;
  }
  given("meminfo", "MemAvailable:");
  EXPECT_EQ(usable("0:"), kUnknown);
  EXPECT_EQ(usable("0::../../..\n"), kUnknown);
}

}  // namespace
}  // namespace muster
