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

}  // namespace
}  // namespace muster::trainer
