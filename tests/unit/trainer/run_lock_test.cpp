// One holder at a time, and none after a death.
#include "muster/trainer/run_lock.h"

#include <gtest/gtest.h>

#include <optional>

#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

const Deadline kAtOnce = Deadline::after(std::chrono::nanoseconds(0));

TEST(RunLock, OneHoldsItAtATime) {
  const testing::TemporaryFolder run;
  testing::spill(run / "job.toml", "[job]\n");
  std::optional<RunLock> first(std::in_place, run.path(), kAtOnce);
  testing::expect_error(ErrorKind::kMismatch, "another process is training this run",
                        [&] { RunLock(run.path(), kAtOnce); });
  first.reset();
  EXPECT_NO_THROW(RunLock(run.path(), kAtOnce));
}

TEST(RunLock, GoesWithAProcessThatDies) {
  const testing::TemporaryFolder run;
  testing::spill(run / "job.toml", "[job]\n");
  const int status = testing::status_of_child([&]() -> int {
    const RunLock held(run.path(), kAtOnce);
    ::raise(SIGKILL);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_NO_THROW(RunLock(run.path(), kAtOnce));
}

TEST(RunLock, NeedsARun) {
  const testing::TemporaryFolder empty;
  testing::expect_error(ErrorKind::kNotFound, "job.toml", [&] { RunLock(empty.path(), kAtOnce); });
}

TEST(RunLock, NoticesThatTheRunIsGone) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  std::filesystem::create_directory(run);
  testing::spill(run / "job.toml", "[job]\n");
  const RunLock lock(run, kAtOnce);
  EXPECT_FALSE(lock.run_is_gone());
  // An editor puts a new file in the place of the old one.
  testing::spill(run / "new", "[job]\n");
  std::filesystem::rename(run / "new", run / "job.toml");
  EXPECT_FALSE(lock.run_is_gone());
  std::filesystem::remove(run / "job.toml");
  EXPECT_TRUE(lock.run_is_gone()) << "its files";
  std::filesystem::rename(run, folder / "moved");
  EXPECT_TRUE(lock.run_is_gone()) << "the folder";
}

TEST(CheckpointFolderLock, KeepsAnotherWriterOutUntilItIsGone) {
  const testing::TemporaryFolder place;
  const std::filesystem::path folder = place / "new" / "kept";
  std::optional<CheckpointFolderLock> first(std::in_place, folder, kAtOnce);
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "nothing to clean up";
  testing::expect_error(ErrorKind::kMismatch, "writes its checkpoints here",
                        [&] { CheckpointFolderLock(folder, kAtOnce); });
  EXPECT_NO_THROW(CheckpointFolderLock(place / "other", kAtOnce));
  first.reset();
  EXPECT_NO_THROW(CheckpointFolderLock(folder, kAtOnce));
}

}  // namespace
}  // namespace muster::trainer
