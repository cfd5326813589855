// Real processes that spin, sleep and only give signs of life, seen through /proc.
#include "muster/base/process_signs.h"
#include "support/eventually.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <thread>

namespace muster {
namespace {

// A process in a group of its own that does as it is told, and is killed at the end.
class Child {
 public:
  explicit Child(const std::function<void()>& what) : pid_(::fork()) {
    if (pid_ == 0) {
      ::setpgid(0, 0);
      what();
      ::_exit(0);
    }
    ::setpgid(pid_, pid_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  ProcessSigns signs() const { return signs_of(process_of(pid_)); }

 private:
  pid_t pid_;
};

[[noreturn]] void sleep_for_good() {
  for (;;)
    ::pause();
}
[[noreturn]] void spin() {
  for (volatile int turns = 0;;)
    turns = turns + 1;
}
TEST(ProcessSigns, OneThatSpinsWorksAndIsGivenTime) {
  const Child child(spin);
  EXPECT_TRUE(testing::eventually([&] { return child.signs().works; }));
  EXPECT_TRUE(child.signs().wants);
  const auto before = child.signs().processor;
  EXPECT_TRUE(testing::eventually([&] { return child.signs().processor > before; }));
}

TEST(ProcessSigns, OneThatSleepsWantsNothing) {
  const Child child(sleep_for_good);
  EXPECT_TRUE(testing::eventually([&] { return !child.signs().wants; }));
  EXPECT_EQ(child.signs().state, ProcessState::kRunning);
  ::kill(child.pid(), SIGSTOP);
  EXPECT_TRUE(testing::eventually([&] { return child.signs().state == ProcessState::kStopped; }));
  EXPECT_FALSE(child.signs().wants);
}

TEST(ProcessSigns, AThreadThatOnlyGivesSignsOfLifeIsNoWork) {
  const Child child([] {
    std::thread([] {
      name_heartbeat_thread();
      spin();
    }).detach();
    sleep_for_good();
  });
  EXPECT_TRUE(testing::eventually([&] { return child.signs().wants && !child.signs().works; }));
}

TEST(ProcessSigns, OneThatIsGoneHasNone) {
  const ProcessSigns signs = signs_of({1 << 29, 1});
  EXPECT_EQ(signs.state, ProcessState::kGone);
  EXPECT_FALSE(signs.wants);
}

TEST(GroupWork, IsThatOfAllThatAProcessHasStarted) {
  const Child child([] {
    if (::fork() == 0) spin();
    sleep_for_good();
  });
  const GroupWork before = work_of_group(child.pid());
  EXPECT_TRUE(testing::eventually([&] { return work_of_group(child.pid()).processor > before.processor; }));
  const Child sleeper(sleep_for_good);
  EXPECT_TRUE(testing::eventually([&] {
    const GroupWork one = work_of_group(sleeper.pid());
    ::usleep(20000);  // sleeps: so that work would show
    return work_of_group(sleeper.pid()) == one;
  }));
}

TEST(GroupWork, ReadingAndWritingCount) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Child child([&] {
    char byte = 0;
    for (;;)
      (void)!::read(pipe[0], &byte, 1);
  });
  EXPECT_TRUE(testing::eventually([&] { return !child.signs().wants; }));
  const GroupWork before = work_of_group(child.pid());
  ASSERT_EQ(::write(pipe[1], "abcd", 4), 4);
  EXPECT_TRUE(testing::eventually([&] { return work_of_group(child.pid()).bytes >= before.bytes + 4; }));
}

TEST(DescendsFrom, FollowsParents) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Child child([&] {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) sleep_for_good();
    (void)!::write(pipe[1], &grandchild, sizeof grandchild);
    sleep_for_good();
  });
  pid_t grandchild = 0;
  ASSERT_EQ(::read(pipe[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  EXPECT_TRUE(descends_from(grandchild, child.pid()));
  EXPECT_TRUE(descends_from(grandchild, ::getpid()));
  EXPECT_FALSE(descends_from(child.pid(), grandchild));
  EXPECT_FALSE(descends_from(child.pid(), child.pid()));
}

}  // namespace
}  // namespace muster
