// Real kills by the kernel, in a memory group of the test's own.
#include "muster/launch/death_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include <fmt/format.h>

#include "support/eventually.h"
#include "support/memory_groups.h"
#include "support/sandbox.h"

namespace muster::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Ending wait_for(ChildProcess& child, DeathReasons& reasons) {
  const bool ended = muster::testing::eventually([&] {
    if (child.poll()) return true;
    reasons.look_at(child.pid());
    return false;
  });
  if (!ended) throw std::runtime_error("the child did not end");
  return *child.poll();
}

TEST(DeathReasonTest, ASignalOfSomebodyElseIsNotTheKernels) {
  DeathReasons reasons;
  ChildProcess child({"sleep", {"600"}, {}});
  reasons.look_at(child.pid());
  child.kill(SIGKILL);
  const Ending ending = wait_for(child, reasons);
  EXPECT_EQ(reasons.explain(child.pid(), ending), "killed by signal 9 (Killed)");
  EXPECT_EQ(reasons.explain(child.pid(), {3, 0}), "exit code 3") << "one that was never seen";
}

class MemoryRunsOut : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = muster::testing::make_memory_group(group_);
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    ASSERT_TRUE(group_->set_limit(16 << 20));
  }
  // A process that enters the group by itself, waits to be seen there, and then does as it is told.
  Command enter_and(const std::string& what) const {
    return {"sh",
            {"-c", fmt::format("echo $$ > {}/cgroup.procs; while ! test -e {}/$$; do sleep 0.01; done; {}",
                               group_->group().path.string(), seen_.path().string(), what)},
            {}};
  }
  void see(const ChildProcess& child, DeathReasons& reasons) const {
    EXPECT_TRUE(muster::testing::eventually([&] { return memory_group_of(child.pid()) == group_->group(); }));
    reasons.look_at(child.pid());
    muster::testing::spill(seen_ / std::to_string(child.pid()), "");
  }

  const muster::testing::TemporaryFolder seen_;  // a file for each, by its number
  std::optional<TemporaryMemoryGroup> group_;
};

TEST_F(MemoryRunsOut, TheReasonNamesTheGroupItsLimitAndWhatToDo) {
  DeathReasons reasons;
  ChildProcess child(enter_and("exec tail /dev/zero"));  // tail keeps the last line, which never ends
  see(child, reasons);
  const Ending ending = wait_for(child, reasons);
  ASSERT_EQ(ending.signal, SIGKILL);
  EXPECT_THAT(reasons.explain(child.pid(), ending),
              AllOf(HasSubstr("the kernel killed it for lack of memory"), HasSubstr(group_->group().path.string()),
                    HasSubstr("may use 16.8 MB"), HasSubstr("fewer workers")));
  EXPECT_EQ(oom_kills(group_->group()), 1U);
}

// Between its death and its burial a process is in the root group; that once hid the reason.
TEST_F(MemoryRunsOut, TheReasonIsKnownToOneWhoLooksAtTheDead) {
  DeathReasons reasons;
  ChildProcess child(enter_and("exec tail /dev/zero"));
  see(child, reasons);
  siginfo_t dead{};
  ASSERT_TRUE(muster::testing::eventually([&] {
    reasons.look_at(child.pid());
    return ::waitid(P_PID, static_cast<id_t>(child.pid()), &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid != 0;
  }));
  reasons.look_at(child.pid());
  EXPECT_THAT(reasons.explain(child.pid(), wait_for(child, reasons)),
              HasSubstr("the kernel killed it for lack of memory"));
}

TEST_F(MemoryRunsOut, AnEarlierKillInTheSameGroupIsNotTheReasonOfALaterOne) {
  DeathReasons reasons;
  ChildProcess hungry(enter_and("exec tail /dev/zero"));
  see(hungry, reasons);
  ASSERT_EQ(wait_for(hungry, reasons).signal, SIGKILL);
  ChildProcess other(enter_and("kill -9 $$"));
  see(other, reasons);
  const Ending ending = wait_for(other, reasons);
  ASSERT_EQ(ending.signal, SIGKILL);
  EXPECT_EQ(reasons.explain(other.pid(), ending), "killed by signal 9 (Killed)");
}

TEST_F(MemoryRunsOut, TheGroupGoesAwayAndLetsTheLivingGo) {
  const std::filesystem::path path = group_->group().path;
  ChildProcess child({"sleep", {"600"}, {}});
  ASSERT_TRUE(group_->add(child.pid()));
  EXPECT_EQ(memory_group_of(child.pid()), group_->group());
  group_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(memory_group_of(child.pid()), memory_group_of(::getpid()));
  EXPECT_FALSE(child.poll()) << "it lives";
}

// Whoever has vforked cannot be woken before its child is gone: the kernel shows it as it shows one that waits for a
// disk.
TEST(WhyItLives, NamesAThreadThatCannotBeWoken) {
  EXPECT_EQ(why_it_lives(::getpid()), "");
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t self = ::getpid();
    if (::vfork() == 0) {
      while (::getppid() == self)
        ::usleep(1000);  // sleeps: nobody tells it that its parent is gone
      ::_exit(0);
    }
    ::_exit(0);
  }
  std::string words;
  EXPECT_TRUE(muster::testing::eventually([&] { return !(words = why_it_lives(child)).empty(); }));
  EXPECT_THAT(words, HasSubstr("cannot be woken"));
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace muster::launch
