// Names, order and limits of run folders, with a clock that stands still.
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

TEST(RunFolder, ARunOfAnotherHostHasAFolderOfTheSameNameHere) {
  const testing::TemporaryFolder here;
  const testing::TemporaryFolder there;
  const RunFolder first = RunFolder::create(there.path(), "net", "[job]\n");
  EXPECT_EQ(RunFolder::of_other_host(first.path(), here.path(), "other").path(), first.path())
      << "a disk that both see";
  const std::filesystem::path elsewhere = "/nonesuch/runs/net-20261117-190000";
  const RunFolder made = RunFolder::of_other_host(elsewhere, here.path() / "runs", "[job]\n");
  EXPECT_EQ(made.path(), here.path() / "runs" / "net-20261117-190000");
  EXPECT_EQ(made.job(), "[job]\n");
  EXPECT_EQ(RunFolder::of_other_host(elsewhere, here.path() / "runs", "other").job(), "[job]\n") << "it is there";
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

// Workers tell each other the path in a note of limited size: what would not fit is refused before anything is made.
TEST(RunFolder, APathThatIsTooLongOrNoTextIsRefusedAndNothingIsMade) {
  const testing::TemporaryFolder temp;
  const FakeClock clock;
  const std::size_t stamp = std::string("/net-19700101-000000").size();
  const auto runs_of = [&](std::size_t bytes) {
    std::filesystem::path runs = temp.path();
    while (runs.string().size() + 202 < bytes)
      runs /= std::string(200, 'd');
    return runs / std::string(bytes - runs.string().size() - 1, 'e');
  };
  const auto reason_of = [&](const std::filesystem::path& runs) -> std::string {
    try {
      RunFolder::create(runs, "net", "", clock);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.message();
    }
    return {};
  };
  EXPECT_EQ(reason_of(runs_of(RunFolder::kLongestPath - stamp)), "");
  EXPECT_TRUE(RunFolder::newest(runs_of(RunFolder::kLongestPath - stamp), "net"));
  const std::filesystem::path longer = runs_of(RunFolder::kLongestPath - stamp + 1);
  EXPECT_EQ(reason_of(longer), "cannot be the folder of a run: its path has 1001 bytes; 1000 are possible");
  EXPECT_FALSE(std::filesystem::exists(longer));
  // A character that JSON writes as six.
  EXPECT_NE(reason_of(temp / std::string(170, '\x01')), "");
  EXPECT_EQ(reason_of(temp / "\xff"), "cannot be the folder of a run: its path is not UTF-8");
}

}  // namespace
}  // namespace muster::trainer
