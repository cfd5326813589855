// Real processes: running, stopped, zombies, and one whose first thread alone has ended.
#include "muster/base/process.h"
#include "support/eventually.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace muster {
namespace {

// A child that waits to be killed.
pid_t start_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;)
      ::pause();
  }
  return child;
}

TEST(Process, ThisOneRuns) {
  const ProcessId self = this_process();
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_GT(self.start_time, 0U);
  EXPECT_EQ(state_of(self), ProcessState::kRunning);
}

TEST(Process, AStoppedOneIsStoppedAndAZombieIsGone) {
  const pid_t child = start_child();
  const ProcessId process{child, 0};
  EXPECT_EQ(state_of(process), ProcessState::kRunning);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(state_of(process), ProcessState::kStopped);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  // Dead and not yet reaped: WNOWAIT leaves the zombie.
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(state_of(process), ProcessState::kGone);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(state_of(process), ProcessState::kGone);
}

TEST(Process, OneIsNotGoneWhileAThreadOfItLives) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] {
      for (;;)
        ::pause();
    }).detach();
    // The first thread alone ends: the kernel shows the process as a zombie, but it has its memory and files.
    ::syscall(SYS_exit, 0);
  }
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  const auto shown_as_zombie = [&] {
    std::ifstream file(stat);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.find(") Z") != std::string::npos;
  };
  ASSERT_TRUE(testing::eventually(shown_as_zombie));
  EXPECT_EQ(state_of(process_of(child)), ProcessState::kRunning);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(state_of(process_of(child)), ProcessState::kGone);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Process, AnotherOneWithTheSameNumberIsNotTheOneThatWasMeant) {
  ProcessId earlier = this_process();
  earlier.start_time -= 1;
  EXPECT_EQ(state_of(earlier), ProcessState::kGone);
}

TEST(Process, IsKnownByItsNumberWhileItLives) {
  EXPECT_EQ(process_of(::getpid()), this_process());
  const pid_t child = start_child();
  const ProcessId process = process_of(child);
  EXPECT_EQ(process.pid, child);
  EXPECT_GE(process.start_time, this_process().start_time);
  EXPECT_EQ(state_of(process), ProcessState::kRunning);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(process_of(child), (ProcessId{child, 0}));
  EXPECT_EQ(state_of(process), ProcessState::kGone);
}

}  // namespace
}  // namespace muster
