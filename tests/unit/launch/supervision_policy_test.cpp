// What a supervisor decides over minutes and hours, in microseconds: the same judgements that it asks (membership.h,
// job_ending.h), on a clock that is turned by hand, with workers that die as told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "muster/control/membership.h"
#include "muster/launch/job_ending.h"

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using control::WorkerState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SupervisionPolicy : public ::testing::Test {
 protected:
  explicit SupervisionPolicy(std::size_t seats = 2) {
    clock_.advance(1h);
    job_.target = static_cast<int>(seats);
    job_.workers.resize(seats);
    job_.arena = true;
  }

  // Looks until `time` has passed, as often as a supervisor does, and does what was decided. Gives when the worker on
  // `seat` was started, counted from now.
  std::vector<std::chrono::milliseconds> look_for(std::chrono::milliseconds time, std::size_t seat = 0) {
    std::vector<std::chrono::milliseconds> started;
    const Clock::Instant begin = clock_.now();
    for (; clock_.now() - begin < time; clock_.advance(10ms)) {
      const control::MembershipDecision decision = look();
      for (const int one : decision.start)
        if (one == static_cast<int>(seat))
          started.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - begin));
    }
    return started;
  }

  control::MembershipDecision look() {
    job_.now = clock_.now();
    job_.failed = ending_.failure() != 0;
    job_.finishing = ending_.admits_nobody();
    control::MembershipDecision decision = control::decide_members(job_);
    for (std::size_t seat = 0; decision.new_generation && decision.members != 0 && seat < job_.workers.size(); ++seat) {
      control::Worker& worker = job_.workers[seat];
      if ((decision.members >> seat & 1) == 0 || worker.member()) continue;
      worker.state = WorkerState::kRunning;
      worker.entered = clock_.now();
    }
    if (decision.new_generation) ++job_.generation;
    for (control::Worker& worker : job_.workers)
      worker.lost = false;
    for (const int seat : decision.start) {
      control::Worker& worker = job_.workers[static_cast<std::size_t>(seat)];
      // Processes are quick here: what they take to get ready is not what is looked at.
      worker.state = slow_ ? WorkerState::kStarting : WorkerState::kReady;
      worker.started = clock_.now();
    }
    return decision;
  }

  void die(std::size_t seat, const Ending& how = {.signal = SIGKILL}) {
    control::Worker& worker = job_.workers[seat];
    EndedWorker ended;
    ended.rank = static_cast<int>(seat);
    ended.ending = how;
    ended.failures = worker.failures;
    ended.member_for = clock_.now() - worker.entered;
    ended.view = {.member = worker.member(), .ready = true, .began = job_.generation > 0, .others = true};
    const Aftermath after = ending_.bury(ended, [](const Ending&) { return std::string(); });
    worker.lost = worker.member();
    worker.state = WorkerState::kEmpty;
    worker.failures = after.failures;
    worker.failed = clock_.now();
  }

  FakeClock clock_;
  JobEnding ending_{5000ms, clock_};
  control::JobView job_;
  bool slow_ = false;
};

TEST_F(SupervisionPolicy, OneThatDiesAgainAndAgainIsReplacedLessAndLessOftenAndReadmittedAfterItsQuarantine) {
  look_for(20ms);
  ASSERT_TRUE(job_.workers[0].member());
  const std::vector<std::chrono::milliseconds> pauses{0ms, 1s, 2s, 4s, 10min, 10min};
  for (const std::chrono::milliseconds pause : pauses) {
    die(0);
    EXPECT_THAT(look_for(pause), IsEmpty()) << "before its time";
    EXPECT_THAT(look_for(30ms), ElementsAre(0ms)) << pause.count() << " ms";
    EXPECT_TRUE(job_.workers[0].member());
  }
  EXPECT_TRUE(job_.workers[1].member()) << "the other one trains all the time";
}

TEST_F(SupervisionPolicy, OneThatHasLastedIsReplacedAtOnceHoweverOftenItDies) {
  look_for(20ms);
  for (int time = 0; time < 20; ++time) {
    look_for(control::kForgiven + 100ms);
    die(1);
    EXPECT_THAT(look_for(30ms, 1), ElementsAre(0ms));
  }
}

TEST_F(SupervisionPolicy, WhenEveryPlaceIsInQuarantineAllIsLost) {
  look_for(20ms);
  for (int time = 0; time < control::kMostFailures; ++time) {
    die(0);
    die(1);
    if (time + 1 < control::kMostFailures) look_for(5s - 10ms);
    job_.workers[0].entered = job_.workers[1].entered = clock_.now();  // each time they die young
  }
  EXPECT_TRUE(look().all_lost);
}

TEST_F(SupervisionPolicy, TheFirstGenerationGathersForAMinuteAndLaterOnesForNobody) {
  slow_ = true;
  EXPECT_THAT(look_for(20ms), ElementsAre(0ms));
  job_.workers[0].state = WorkerState::kReady;
  look_for(59900ms);
  EXPECT_EQ(job_.generation, 0U);
  look_for(200ms);
  EXPECT_EQ(job_.generation, 1U);
  EXPECT_TRUE(job_.workers[0].member());
  job_.workers[1].state = WorkerState::kReady;
  look();
  EXPECT_EQ(job_.generation, 2U);
}

TEST_F(SupervisionPolicy, WhenAllHaveFailedByThemselvesNobodyElseIsTried) {
  look_for(20ms);
  die(0);
  die(1, {.exit_code = 3});
  const control::MembershipDecision decision = look();
  EXPECT_TRUE(decision.all_lost);
  EXPECT_THAT(decision.start, IsEmpty());
  EXPECT_EQ(ending_.failure(), 3);
}

}  // namespace
}  // namespace muster::launch
