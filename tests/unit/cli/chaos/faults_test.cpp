// Faults in processes of the test's own, with statuses made up for them; and what they leave.
#include "muster/cli/chaos/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <deque>

#include "muster/cli/chaos/footprints.h"
#include "muster/launch/child_process.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Workers that do nothing, and the status that a coordinator would give of them.
class FaultMakerTest : public ::testing::Test {
 protected:
  FaultMakerTest() {
    status_.live = true;
    status_.state = "running";
    status_.step = 10;
    for (int rank = 0; rank < 2; ++rank)
      seat(rank);
    look();
  }
  // Another process on that seat.
  void seat(int rank) {
    children_.emplace_back(launch::Command{"sleep", {"600"}, {}});
    const control::Worker member{
        .rank = rank, .process = process_of(children_.back().pid()), .state = control::WorkerState::kRunning};
    if (status_.members.size() <= static_cast<std::size_t>(rank)) status_.members.resize(rank + 1);
    status_.members[rank] = member;
  }
  void look() { maker_.look(status_, now_); }
  void look_after(double seconds) {
    now_ += seconds;
    look();
  }
  bool make(Fault fault, std::uint64_t draw = 0) { return maker_.make({fault, 0, draw}, now_); }
  ProcessState state(int rank) const { return state_of(status_.members[rank].process); }
  void wait_until(int rank, ProcessState state) const {
    ASSERT_TRUE(testing::eventually([&] { return this->state(rank) == state; }));
  }

  std::deque<launch::ChildProcess> children_;
  control::JobStatus status_;
  double now_ = 0;
  int attached_ = 0;
  FaultMaker maker_{{.liveness = 2, .replace_coordinator = [this] { ++attached_; }}};
};

constexpr std::uint64_t kFirst = 0;
constexpr std::uint64_t kSecond = 256;  // the lower byte says whether a stopped one is woken
constexpr std::uint64_t kWoken = 1;

TEST_F(FaultMakerTest, ASignalNeverReachesAStranger) {
  ProcessId process = status_.members[0].process;
  ++process.start_time;
  EXPECT_FALSE(send_signal(process, SIGKILL));
  EXPECT_FALSE(send_signal({2'000'000'000, 1}, SIGKILL));
  EXPECT_EQ(state(0), ProcessState::kRunning);
  EXPECT_TRUE(send_signal(status_.members[0].process, SIGKILL));
  wait_until(0, ProcessState::kGone);
  EXPECT_FALSE(send_signal(status_.members[0].process, SIGKILL)) << "it is dead already";
}

TEST_F(FaultMakerTest, AfterADeathAStepHasToBeCommitted) {
  ASSERT_TRUE(maker_.ready());
  ASSERT_TRUE(make(Fault::kKill, kSecond));
  wait_until(1, ProcessState::kGone);
  EXPECT_EQ(state(0), ProcessState::kRunning);
  EXPECT_FALSE(maker_.ready());
  look_after(0.1);
  EXPECT_EQ(maker_.faults().back().gone, 0.1);
  status_.step = 11;  // what is told may be from before the death
  look_after(0.1);
  EXPECT_FALSE(maker_.ready());
  look_after(0.2);
  EXPECT_FALSE(maker_.ready()) << "11 may be the step in which it died";
  status_.step = 12;
  look_after(0.1);
  EXPECT_TRUE(maker_.ready());
  EXPECT_EQ(maker_.faults().back().replaced, std::nullopt);
  seat(1);
  look_after(0.1);
  EXPECT_THAT(maker_.faults().back().replaced.value_or(0), ::testing::DoubleNear(0.6, 1e-9));
  EXPECT_TRUE(maker_.settled());
}

TEST_F(FaultMakerTest, AStoppedWorkerIsWokenOrLeft) {
  ASSERT_TRUE(make(Fault::kStop, kFirst | kWoken));
  wait_until(0, ProcessState::kStopped);
  EXPECT_TRUE(maker_.ready()) << "others may fail meanwhile";
  ASSERT_TRUE(make(Fault::kStop, kFirst)) << "one that is stopped is no victim";
  wait_until(1, ProcessState::kStopped);
  EXPECT_FALSE(make(Fault::kKill)) << "nobody is left";
  look_after(0.9);
  EXPECT_EQ(state(0), ProcessState::kStopped);
  look_after(0.2);
  wait_until(0, ProcessState::kRunning);
  EXPECT_EQ(state(1), ProcessState::kStopped);
  EXPECT_FALSE(maker_.settled()) << "the second waits for its supervisor";
  send_signal(status_.members[1].process, SIGKILL);
  wait_until(1, ProcessState::kGone);
  look_after(0.9);
  EXPECT_TRUE(maker_.settled());
  EXPECT_EQ(maker_.faults()[0].gone, std::nullopt);
  EXPECT_EQ(maker_.faults()[1].gone, now_);
}

TEST_F(FaultMakerTest, NobodyStaysStoppedWhenItEnds) {
  {
    FaultMaker maker({.liveness = 2});
    maker.look(status_, 0);
    ASSERT_TRUE(maker.make({Fault::kStop, 0, kFirst}, 0));
    wait_until(0, ProcessState::kStopped);
  }
  wait_until(0, ProcessState::kRunning);
}

TEST_F(FaultMakerTest, AWorkerThatHadNoTimeToTrainIsSparedAfterAWhile) {
  status_.members.resize(1);
  for (int death = 0; death < 3; ++death) {
    look_after(1);
    ASSERT_TRUE(make(Fault::kKill)) << death;
    wait_until(0, ProcessState::kGone);
    for (int i = 0; i < 3; ++i) {
      ++status_.step;
      look_after(0.3);
    }
    seat(0);
    look_after(0.1);
    ASSERT_TRUE(maker_.ready());
  }
  EXPECT_FALSE(make(Fault::kKill));
  look_after(7);
  EXPECT_TRUE(make(Fault::kKill)) << "it has trained for a while";
}

TEST_F(FaultMakerTest, ACoordinatorIsKilledAndAnotherStarted) {
  children_.emplace_back(launch::Command{"sleep", {"600"}, {}});
  status_.coordinator_pid = children_.back().pid();
  look();
  ASSERT_TRUE(make(Fault::kCoordinator));
  EXPECT_EQ(attached_, 1);
  EXPECT_FALSE(maker_.ready());
  look_after(1);
  EXPECT_FALSE(maker_.ready()) << "it is the old one that the status names";
  status_.coordinator_pid = ::getpid();
  look_after(1);
  EXPECT_TRUE(maker_.ready());
}

TEST(FootprintsTest, ProcessesFoldersAndCheckpointsAreFound) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "job/store-0");
  std::filesystem::create_directories(folder / "checkpoints");
  std::filesystem::create_directories(folder / "shared");
  testing::spill(folder / "shared/muster-old", "");
  Footprints footprints(folder.path(), folder / "shared");
  EXPECT_THAT(footprints.left(), IsEmpty());
  const std::string store = "MUSTER_STORE=" + (folder / "job/store-0").string();
  std::optional<launch::ChildProcess> worker(std::in_place, launch::Command{"env", {store, "sleep", "600"}, {}});
  std::optional<launch::ChildProcess> hidden(std::in_place, launch::Command{"env", {store, "sleep", "600"}, {}});
  const std::string named = "process " + std::to_string(worker->pid());
  const std::string unnamed = "process " + std::to_string(hidden->pid()) + ", which no status named";
  // Until both have become what they are to be. In an exec the name changes first and the environment is readable only
  // later, so it's the environment that is waited for.
  for (const pid_t pid : {worker->pid(), hidden->pid()})
    ASSERT_TRUE(testing::eventually([&] {
      const std::string process = "/proc/" + std::to_string(pid);
      return testing::slurp(process + "/comm") == "sleep\n" &&
             testing::slurp(process + "/environ").find(store) != std::string::npos;
    }));
  footprints.add(process_of(worker->pid()));
  footprints.add(process_of(worker->pid()));
  testing::spill(folder / "shared/muster-new", "");
  testing::spill(folder / "shared/another", "");
  EXPECT_THAT(footprints.left(), ElementsAre(named, "folder " + (folder / "job").string(), unnamed,
                                             "shared memory " + (folder / "shared/muster-new").string()));
  worker.reset();
  hidden.reset();
  std::filesystem::remove(folder / "shared/muster-new");
  std::filesystem::remove_all(folder / "job");
  EXPECT_THAT(footprints.left(), IsEmpty());
  std::filesystem::create_directories(folder / "checkpoints/.step-000000000007.1.tmp");
  EXPECT_THAT(footprints.left(), ElementsAre("a checkpoint that was begun, .step-000000000007.1.tmp"));
}

}  // namespace
}  // namespace muster::cli
