// The supervisor with workers that are started by a script, and with those of another one that is gone.
#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/base/proc_stat.h"
#include "unit/launch/supervisor_fixture.h"

namespace muster::launch {
namespace {

using ::testing::HasSubstr;

// A script that does something else first, and does not exec.
class WrappedWorkers : public SupervisorTest {
 protected:
  static Command wrapped(const std::string& before, const std::string& mode, const std::string& after) {
    return shell(fmt::format("{}\n{} {}\n{}", before, SUPERVISED_WORKER, mode, after));
  }
};

TEST_F(WrappedWorkers, AreLetInTrainAndSayHowTheJobEnds) {
  EXPECT_EQ(run(wrapped("true", "train", "exit $?"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1})}), 0);
  last_ = {};
  EXPECT_EQ(run(wrapped("true", "train", "exit $?"), 2, {trains({0, 1}), send(SIGUSR1, {0, 1})}), 3);
  EXPECT_EQ(told_.find("killed"), std::string::npos) << told_;
}

TEST_F(WrappedWorkers, GetTheSignalThatAsksForTheEnd) {
  const auto ask = [&](const SupervisorReport&) {
    signal_ = SIGTERM;
    return true;
  };
  EXPECT_EQ(run(wrapped("true", "train", "exit $?"), 2, {trains({0, 1}), ask}), 143);
}

TEST_F(WrappedWorkers, AreReplacedWhenTheyAreKilledHoweverLongTheirWrapperLives) {
  clock_ = &quick_clock_;
  for (const char* after : {"exit $?", "exit 0", "test $? = 0 || sleep 600"}) {
    told_.clear();
    last_ = {};
    EXPECT_EQ(run(wrapped("true", "train", after), 2,
                  {trains({0, 1}), send(SIGKILL, {1}), [](const auto& report) { return report.generation > 1; },
                   trains({0, 1}), send(SIGUSR2, {0, 1, 2})}),
              0)
        << after;
    EXPECT_THAT(told_, HasSubstr("worker 1 ")) << after;
  }
}

TEST_F(WrappedWorkers, AreKilledWithTheirWrapper) {
  pid_t worker = 0;
  const auto kill_wrapper = [&](const SupervisorReport&) {
    worker = pids_.at(1);
    const pid_t wrapper = read_proc_stat(fmt::format("/proc/{}/stat", worker))->parent;
    EXPECT_NE(wrapper, ::getpid()) << "the shell has exec'ed by itself";
    return ::kill(wrapper, SIGKILL) == 0;
  };
  EXPECT_EQ(run(wrapped("true", "train", "exit $?"), 2,
                {trains({0, 1}), kill_wrapper, [&](const auto& report) { return report.generation > 1; },
                 [&](const auto&) {
                   EXPECT_EQ(state_of({worker, 0}), ProcessState::kGone) << "it was buried alive";
                   return true;
                 },
                 trains({0, 1}), send(SIGUSR2, {0, 1, 2})}),
            0);
}

TEST_F(WrappedWorkers, AreFoundWhenTheyAreStopped) {
  options_.watch.liveness = 400ms;
  pid_t silent = 0;
  const auto stop_one = [&](const SupervisorReport& report) {
    silent = pids_.at(1);
    return send(SIGSTOP, {1})(report);
  };
  EXPECT_EQ(run(wrapped("true", "train", "exit $?"), 2,
                {trains({0, 1}), stop_one,
                 [&](const auto&) {
                   return state_of({silent, 0}) == ProcessState::kGone;
                 },
                 trains({0, 1}), send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_THAT(told_, HasSubstr("it is stopped"));
}

TEST_F(SupervisorTest, WorkersOutliveItAndAreTakenOver) {
  orphans(worker("train"), 3);
  const std::map<int, pid_t> before = pids_;
  for (const auto& [seat, pid] : before)
    ASSERT_EQ(state_of(process_of(pid)), ProcessState::kRunning) << seat;
  EXPECT_EQ(run(worker("train"), 3,
                {trains({0, 1, 2}), [&](const auto&) { return pids_ == before; }, send(SIGKILL, {1}),
                 [&](const auto& report) { return pids_of(report).contains(1) && pids_of(report) != before; },
                 trains({0, 1, 2}), send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_EQ(pids_.at(0), before.at(0));
  EXPECT_NE(pids_.at(1), before.at(1));
  EXPECT_EQ(pids_.at(2), before.at(2));
  EXPECT_THAT(told_, HasSubstr(fmt::format("worker 1 (pid {}) is lost", before.at(1))));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(store_).parent_path())) << "its folder is removed";
}

TEST_F(SupervisorTest, OneThatWasLostBeforeTheTakeOverIsReplaced) {
  orphans(worker("train"), 2);
  const std::map<int, pid_t> before = pids_;
  ::kill(before.at(0), SIGKILL);
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1})}), 0);
  EXPECT_NE(pids_.at(0), before.at(0));
  EXPECT_EQ(pids_.at(1), before.at(1));
}

TEST_F(SupervisorTest, ASignalReachesThoseThatWereTakenOver) {
  orphans(worker("train"), 2);
  const auto ask = [&](const SupervisorReport&) {
    signal_ = SIGUSR2;
    return true;
  };
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), ask}), 128 + SIGUSR2);
}

TEST_F(SupervisorTest, NothingIsTakenOverWhereNobodyLives) {
  orphans(worker("train"), 2);
  for (const auto& [seat, pid] : pids_)
    ::kill(pid, SIGKILL);
  for (const auto& [seat, pid] : pids_)
    EXPECT_TRUE(testing::eventually(
        [&] { return state_of(process_of(pid)) == ProcessState::kGone || process_of(pid).start_time == 0; }));
  EXPECT_THROW(run(worker("train"), 2), Error);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(store_).parent_path())) << "its folder is removed";
}

TEST_F(SupervisorTest, AFolderThatAKilledSupervisorLeftIsRemovedByTheNext) {
  orphans(worker("train"), 2);
  for (const auto& [seat, pid] : pids_)
    ::kill(pid, SIGKILL);
  const std::filesystem::path left = std::filesystem::path(store_).parent_path();
  EXPECT_TRUE(std::filesystem::exists(left));
  store_.clear();
  for (const auto& [seat, pid] : pids_)
    EXPECT_TRUE(testing::eventually(
        [&] { return state_of(process_of(pid)) == ProcessState::kGone || process_of(pid).start_time == 0; }));
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1})}), 0);
  EXPECT_FALSE(std::filesystem::exists(left));
}

}  // namespace
}  // namespace muster::launch
