// Real signals in processes of their own: the first asks, the second and the end of the grace period end.
#include "muster/cli/signals.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "muster/base/deadline.h"
#include "support/eventually.h"

namespace muster::cli {
namespace {

// Runs `body` in a child, so that signals and _exit stay there, and gives its exit code.
template <typename Body>
int exit_code_of(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

bool wait_for(const SignalWatch& watch) {
  return testing::eventually([&] { return watch.stop_requested(); }, Deadline::after(std::chrono::seconds(20)));
}

TEST(SignalWatch, TellsHowMuchOfTheGracePeriodIsOver) {
  EXPECT_EQ(exit_code_of([] {
              const SignalWatch watch(std::chrono::seconds(60), [](const std::string&) {});
              if (watch.grace_used() != 0) return 1;
              ::kill(::getpid(), SIGTERM);
              if (!wait_for(watch) || !testing::eventually([&] { return watch.grace_used() > 0; })) return 2;
              return watch.grace_used() < 1 ? 0 : 3;
            }),
            0);
}

TEST(SignalWatch, TheFirstSignalIsARequest) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    EXPECT_EQ(exit_code_of([signal] {
                std::atomic<int> told{0};
                SignalWatch watch(std::chrono::seconds(60), [&](const std::string&) { ++told; });
                if (watch.stop_requested() || watch.exit_code() != 0) return 1;
                ::kill(::getpid(), signal);
                if (!wait_for(watch)) return 2;
                // Workers are asked as they always are, whatever a batch system sends.
                if (watch.for_workers() != (signal == SIGUSR1 ? SIGTERM : signal)) return 3;
                return watch.exit_code();
              }),
              128 + signal);
  }
}

TEST(SignalWatch, ForAWorkerTheSecondSignalIsTheFirstOnceMore) {
  EXPECT_EQ(exit_code_of([] {
              std::atomic<int> told{0};
              SignalWatch watch(
                  std::chrono::seconds(60), [&](const std::string&) { ++told; }, {}, SignalWatch::Second::kIsTheSame);
              ::kill(::getpid(), SIGUSR1);
              if (!wait_for(watch)) return 1;
              for (int i = 0; i < 3; ++i)
                ::kill(::getpid(), SIGTERM);
              // The grace period, which is looked at after a signal was, goes on.
              const double before = watch.grace_used();
              if (!testing::eventually([&] { return watch.grace_used() > before + 0.01; })) return 2;
              return watch.insisted() || told != 1 || watch.exit_code() != 128 + SIGUSR1 ? 3 : 0;
            }),
            0);
}

TEST(SignalWatch, TheSecondSignalEndsTheProcess) {
  EXPECT_EQ(exit_code_of([] {
              SignalWatch watch(std::chrono::seconds(60), [](const std::string&) {});
              ::kill(::getpid(), SIGTERM);
              if (!wait_for(watch)) return 2;
              ::kill(::getpid(), SIGINT);
              system_clock().sleep_for(std::chrono::seconds(30));  // sleeps: until the watch ends it, or nobody does
              return 3;
            }),
            143);
}

TEST(SignalWatch, TheEndOfTheGracePeriodEndsTheProcess) {
  EXPECT_EQ(exit_code_of([] {
              SignalWatch watch(std::chrono::duration<double>(0.1), [](const std::string&) {});
              ::kill(::getpid(), SIGINT);
              system_clock().sleep_for(std::chrono::seconds(30));  // sleeps: until the watch ends it, or nobody does
              return 3;
            }),
            130);
}

}  // namespace
}  // namespace muster::cli
