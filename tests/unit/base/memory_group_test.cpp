// Groups as files of the test's own: every layout that machines have.
#include "muster/base/memory_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/sandbox.h"

namespace muster {
namespace {

using muster::testing::spill;
using muster::testing::TemporaryFolder;

class MemoryGroupTest : public ::testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    spill(path, text);
  }
  std::optional<MemoryGroup> group() { return memory_group(root_ / "membership", root_.path()); }

  TemporaryFolder root_;
};

TEST_F(MemoryGroupTest, Version2CountsInEvents) {
  file("membership", "0::/a/b\n");
  file("a/b/memory.events", "low 0\nhigh 2\nmax 7\noom 1\noom_kill 3\n");
  file("a/b/memory.max", "max\n");
  file("a/memory.max", "1048576\n");
  ASSERT_TRUE(group());
  EXPECT_EQ(group()->path, root_.path() / "a/b");
  EXPECT_EQ(oom_kills(*group()), 3U);
  EXPECT_EQ(memory_limit(*group()), 1048576U) << "the limit of a group above holds as well";
}

TEST_F(MemoryGroupTest, AGroupWithoutTheControllerIsCountedAbove) {
  file("membership", "0::/a/b\n");
  file("a/memory.events", "oom_kill 1\n");
  std::filesystem::create_directories(root_ / "a/b");
  ASSERT_TRUE(group());
  EXPECT_EQ(group()->path, root_.path() / "a");
}

TEST_F(MemoryGroupTest, Version1CountsInOomControl) {
  file("membership", "4:cpu:/x\n3:memory:/job\n0::/\n");
  file("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  file("memory/job/memory.limit_in_bytes", "4096\n");
  file("memory/memory.limit_in_bytes", "9223372036854771712\n");
  ASSERT_TRUE(group());
  EXPECT_FALSE(group()->version2);
  EXPECT_EQ(oom_kills(*group()), 2U);
  EXPECT_EQ(memory_limit(*group()), 4096U);
}

TEST_F(MemoryGroupTest, WithoutGroupsNothingIsKnown) {
  EXPECT_EQ(group(), std::nullopt) << "no such process";
  file("membership", "0::/\n");
  EXPECT_EQ(group(), std::nullopt);
  EXPECT_EQ(oom_kills({root_.path(), true}), 0U);
  EXPECT_EQ(memory_limit({root_.path(), true}), std::nullopt);
}

}  // namespace
}  // namespace muster
