#include "muster/trainer/run_folder.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

TEST(RunFolder, HoldsTheResolvedJobAndSortsByTime) {
  const testing::TemporaryFolder temp;
  FakeClock clock;
  const RunFolder first = RunFolder::create(temp.path(), "net", "[job]\n", clock);
  clock.advance(std::chrono::hours(30));
  const RunFolder second = RunFolder::create(temp.path(), "net", "[job]\nseed = 2\n", clock);
  EXPECT_EQ(first.path().filename(), "net-19700101-000000");
  EXPECT_EQ(second.path().filename(), "net-19700102-060000");
  EXPECT_EQ(RunFolder::newest(temp.path(), "net")->path(), second.path());
  EXPECT_EQ(RunFolder::open(second.path()).job(), "[job]\nseed = 2\n");
}

TEST(RunFolder, TwoRunsOfOneSecondGetFoldersOfTheirOwn) {
  const testing::TemporaryFolder temp;
  const FakeClock clock;
  const RunFolder first = RunFolder::create(temp.path(), "net", "", clock);
  const RunFolder second = RunFolder::create(temp.path(), "net", "", clock);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(RunFolder::newest(temp.path(), "net")->path(), second.path());
}

TEST(RunFolder, RunsOfOtherJobsAreNotTaken) {
  const testing::TemporaryFolder temp;
  const FakeClock clock;
  RunFolder::create(temp.path(), "net-large", "", clock);
  std::filesystem::create_directory(temp.path() / "net-notes");
  EXPECT_FALSE(RunFolder::newest(temp.path(), "net"));
  EXPECT_FALSE(RunFolder::newest(temp.path() / "missing", "net"));
}

TEST(RunFolder, AFolderThatIsNoRunIsRefused) {
  const testing::TemporaryFolder temp;
  EXPECT_THROW(RunFolder::open(temp.path()), Error);
}

}  // namespace
}  // namespace muster::trainer
