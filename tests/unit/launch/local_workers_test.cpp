#include "muster/launch/local_workers.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "muster/base/process.h"
#include "support/sandbox.h"

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using muster::testing::slurp;
using muster::testing::TemporaryFolder;

Command shell(const std::string& script) {
  return {"sh", {"-c", script}, {}};
}

TEST(LocalWorkers, EachKnowsItsRankAndAllHaveOneStore) {
  const TemporaryFolder folder;
  const std::string out = folder.path().string();
  {
    LocalWorkers workers(shell("echo $MUSTER_SIZE $MUSTER_STORE > " + out + "/$MUSTER_RANK; test -d $MUSTER_STORE"), 3);
    EXPECT_FALSE(workers.watch({}));
  }
  const std::string first = slurp(folder / "0");
  EXPECT_EQ(first, slurp(folder / "1"));
  EXPECT_EQ(first, slurp(folder / "2"));
  ASSERT_TRUE(first.starts_with("3 "));
  EXPECT_FALSE(std::filesystem::exists(first.substr(2, first.size() - 3))) << "the store is removed";
}

TEST(LocalWorkers, TheFirstThatEndsBadlyIsNamedAndTheOthersAreEnded) {
  LocalWorkers workers(shell("test $MUSTER_RANK = 1 && exit 5; exec sleep 600"), 3);
  const pid_t pid = workers.pid(1);
  const auto lost = workers.watch({.grace = 50ms});
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 1);
  EXPECT_EQ(lost->pid, pid);
  EXPECT_EQ(lost->ending.exit_code, 5);
}

TEST(LocalWorkers, AKilledOneIsToldBySignal) {
  LocalWorkers workers(shell("test $MUSTER_RANK = 0 && kill -9 $$; exec sleep 600"), 2);
  const auto lost = workers.watch({.grace = 50ms});
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 0);
  EXPECT_EQ(lost->ending.signal, SIGKILL);
}

TEST(LocalWorkers, ASignalIsPassedOnOnceAndTheFirstWorkerSpeaksForAll) {
  const TemporaryFolder folder;
  const std::string ready = folder.path().string() + "/ready";
  // Worker 1 ends first and with another code.
  LocalWorkers workers(shell("trap 'test $MUSTER_RANK = 0 && sleep 0.2 && exit 143; exit 9' TERM; echo > " + ready +
                             "$MUSTER_RANK; while :; do sleep 0.01; done"),
                       2);
  WatchOptions options;
  options.requested_signal = [&] {
    return std::filesystem::exists(ready + "0") && std::filesystem::exists(ready + "1") ? SIGTERM : 0;
  };
  const auto lost = workers.watch(options);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->rank, 0);
  EXPECT_EQ(lost->ending.exit_code, 143);
}

}  // namespace
}  // namespace muster::launch
