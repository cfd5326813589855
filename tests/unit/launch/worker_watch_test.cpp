// With a clock that is turned by hand and processes that look as told.
#include "muster/launch/worker_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class WorkerWatchTest : public ::testing::Test {
 protected:
  WorkerWatchTest() {
    clock_.advance(100s);
    worker_.process = {7, 1};
    signs_.group = 7;
    signs_.seated = true;
    beat();
  }
  void be_member_for(std::chrono::nanoseconds time) { worker_.entered = clock_.now() - time; }
  void beat() { signs_.beat = clock_.now().time_since_epoch(); }
  void begin(comm::Activity activity) { signs_.doing = {activity, clock_.now().time_since_epoch()}; }
  // Looks every 50 ms for that long, and gives what was found first.
  std::optional<Finding> look_for(std::chrono::nanoseconds time, bool beats) {
    for (const Deadline end = Deadline::after(time, clock_); !end.passed(); clock_.advance(50ms)) {
      if (beats) beat();
      if (std::optional<Finding> finding = watch_.look_at(worker_, signs_)) return finding;
    }
    return std::nullopt;
  }
  // As look_for(), while all of its time, or a part of it, is given to the worker.
  std::optional<Finding> compute_for(std::chrono::nanoseconds time, int share_percent) {
    for (const Deadline end = Deadline::after(time, clock_); !end.passed();) {
      process_.processor += 50ms * share_percent / 100;
      if (std::optional<Finding> finding = look_for(50ms, true)) return finding;
    }
    return std::nullopt;
  }

  FakeClock clock_;
  ProcessSigns process_{.state = ProcessState::kRunning};
  GroupWork work_;
  control::Worker worker_;
  WorkerSigns signs_;
  WorkerWatch watch_{{.liveness = 2s, .hang = 10s, .start = 600s},
                     1,
                     clock_,
                     [this](const ProcessId&) { return process_; },
                     [this](pid_t) { return work_; }};
};

TEST_F(WorkerWatchTest, AStoppedOneIsFoundWithinItsTime) {
  process_.state = ProcessState::kStopped;
  EXPECT_FALSE(look_for(1950ms, false));
  const std::optional<Finding> finding = look_for(200ms, false);
  ASSERT_TRUE(finding);
  EXPECT_TRUE(finding->silent);
  EXPECT_FALSE(finding->hung);
  EXPECT_THAT(finding->reason, HasSubstr("it is stopped"));
}

TEST_F(WorkerWatchTest, AStarvedOneIsWaitedForAndFoundWhenItIsStopped) {
  process_.wants = process_.works = true;
  EXPECT_FALSE(look_for(9min, false));
  process_.state = ProcessState::kStopped;
  EXPECT_FALSE(look_for(900ms, false));
  EXPECT_TRUE(look_for(300ms, false));
}

TEST_F(WorkerWatchTest, OneThatIsHeardOfIsLeftAlone) {
  EXPECT_FALSE(look_for(1h, true));
}

TEST_F(WorkerWatchTest, ALoopThatDoesNotEndIsHung) {
  be_member_for(1h);
  for (std::uint64_t step = 1; step < 5; ++step) {
    watch_.see_step(step);
    clock_.advance(100ms);
  }
  begin(comm::Activity::kComputing);
  process_.wants = process_.works = true;
  EXPECT_FALSE(compute_for(9900ms, 100));
  const std::optional<Finding> finding = compute_for(300ms, 100);
  ASSERT_TRUE(finding);
  EXPECT_TRUE(finding->hung);
  EXPECT_THAT(finding->reason, HasSubstr("for 10 s without getting on"));
}

TEST_F(WorkerWatchTest, OneThatSharesItsProcessorWithManyGetsTimeInProportion) {
  be_member_for(1h);
  for (std::uint64_t step = 1; step < 5; ++step) {
    watch_.see_step(step);
    clock_.advance(100ms);
  }
  begin(comm::Activity::kComputing);
  process_.wants = process_.works = true;
  EXPECT_FALSE(compute_for(50s, 10));
  EXPECT_TRUE(compute_for(10s, 10));
}

TEST_F(WorkerWatchTest, ADeadlockIsFoundAlthoughItsHeartGoesOn) {
  be_member_for(1h);
  watch_.see_step(1);
  clock_.advance(100ms);
  watch_.see_step(2);
  begin(comm::Activity::kEvaluating);
  process_.wants = true;
  EXPECT_FALSE(look_for(9900ms, true));
  EXPECT_TRUE(look_for(300ms, true));
}

TEST_F(WorkerWatchTest, ANewOneIsGivenMoreTime) {
  begin(comm::Activity::kComputing);
  EXPECT_FALSE(look_for(69900ms, true)) << "no step has been seen yet";
  EXPECT_TRUE(look_for(300ms, true));
}

TEST_F(WorkerWatchTest, WaitingForOthersIsNotHung) {
  be_member_for(1h);
  begin(comm::Activity::kWaiting);
  EXPECT_FALSE(look_for(1h, true));
}

// Else nobody would ever end the job.
TEST_F(WorkerWatchTest, OneThatIsStoppedWhenItsWorkIsDoneIsFound) {
  begin(comm::Activity::kDone);
  EXPECT_FALSE(look_for(1h, false));
  process_.state = ProcessState::kStopped;
  EXPECT_FALSE(look_for(1900ms, false));
  const std::optional<Finding> finding = look_for(500ms, false);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->reason, HasSubstr("stopped"));
}

TEST_F(WorkerWatchTest, OneWhoseWorkIsDoneIsLeftAlone) {
  be_member_for(1h);
  begin(comm::Activity::kDone);
  EXPECT_FALSE(look_for(1h, false));
}

TEST_F(WorkerWatchTest, OneThatStartsIsWaitedForAsLongAsItDoesSomething) {
  signs_ = {.group = 7};
  for (int minute = 0; minute < 30; ++minute) {
    EXPECT_FALSE(look_for(5min, false));
    work_.bytes += 1;
  }
  EXPECT_FALSE(look_for(599s, false));
  const std::optional<Finding> finding = look_for(3s, false);
  ASSERT_TRUE(finding);
  EXPECT_FALSE(finding->silent);
  EXPECT_THAT(finding->reason, HasSubstr("has not begun to train"));
}

}  // namespace
}  // namespace muster::launch
