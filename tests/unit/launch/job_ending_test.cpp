// How a job ends, on a clock that is turned by hand and without a process.
#include "muster/launch/job_ending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/control/membership.h"
#include "support/errors.h"

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Ending kEndsWell{};
constexpr Ending kIsKilled{.signal = SIGKILL};
constexpr Ending kCrashes{.signal = SIGSEGV};

Ending fails(int code) {
  return {.exit_code = code};
}

class JobEndingTest : public ::testing::Test {
 protected:
  // Of a job that trains.
  static EndedWorker member(int rank, const Ending& ending) {
    EndedWorker worker;
    worker.rank = rank;
    worker.pid = 100 + rank;
    worker.ending = ending;
    worker.view = {.member = true, .ready = true, .began = true};
    return worker;
  }
  // Of a job that begins.
  static EndedWorker newcomer(int rank, const Ending& ending) {
    EndedWorker worker = member(rank, ending);
    worker.view = {};
    return worker;
  }
  Aftermath bury(const EndedWorker& worker) {
    return ending_.bury(worker, [](const Ending& how) { return to_string(how); });
  }

  FakeClock clock_;
  JobEnding ending_{5000ms, clock_};
  const JobEnding::Now trains_{.generation = 1, .members = true};
  const JobEnding::Now empty_{.generation = 1};
  const JobEnding::Now begins_{};
};

// The others of a job would do the same, each as often as it may be replaced.
TEST_F(JobEndingTest, OneThatFailsWhereTheOneBeforeItDidEndsTheJob) {
  EndedWorker worker = member(0, fails(1));
  worker.step = 10;
  worker.reason = "the disk is full";
  worker.started = clock_.now();
  clock_.advance(1s);
  EXPECT_THAT(bury(worker).told, ::testing::Each(::testing::Not(HasSubstr("the job ends"))));
  // One that was there with it: one cause may have ended both.
  worker.rank = 1;
  EXPECT_THAT(bury(worker).told, ::testing::Each(::testing::Not(HasSubstr("the job ends"))));
  EXPECT_FALSE(ending_.admits_nobody());
  worker.started = clock_.now();
  EXPECT_THAT(bury(worker).told, ::testing::Contains(HasSubstr("the disk is full")));
  EXPECT_TRUE(ending_.admits_nobody());
  EXPECT_EQ(ending_.exit_code(), 1);
}

TEST_F(JobEndingTest, FailuresThatDifferAreReplacedAsBefore) {
  const auto next = [&](int code, std::uint64_t step, const std::string& reason, bool counts = true) {
    EndedWorker worker = member(0, fails(code));
    worker.step = step;
    worker.reason = reason;
    worker.counts_steps = counts;
    worker.started = clock_.now();
    clock_.advance(1s);
    bury(worker);
    return ending_.admits_nobody();
  };
  EXPECT_FALSE(next(1, 10, "a"));
  EXPECT_FALSE(next(1, 11, "a")) << "it came further";
  EXPECT_FALSE(next(1, 11, "b")) << "for another reason";
  EXPECT_FALSE(next(3, 11, "b")) << "another end";
  EXPECT_FALSE(next(3, 0, "b", false)) << "nobody counts steps there";
  EXPECT_FALSE(next(3, 0, "b", false));
  EXPECT_FALSE(next(1, 12, "")) << "a worker of ours that lost a peer says nothing";
  EXPECT_FALSE(next(1, 12, ""));
  EXPECT_FALSE(next(130, 12, "c")) << "killed";
  EXPECT_FALSE(next(130, 12, "c"));
}

TEST_F(JobEndingTest, AWorkerThatIsLostIsToldOfAndTheJobGoesOn) {
  const Aftermath after = bury(member(1, kIsKilled));
  EXPECT_EQ(after.judgement.verdict, EndingVerdict::kLost);
  EXPECT_THAT(after.told, ElementsAre("worker 1 (pid 101) is lost: killed by signal 9 (Killed)"));
  EXPECT_EQ(after.failures, 1);
  EXPECT_FALSE(ending_.over(trains_));
  EXPECT_FALSE(ending_.admits_nobody());
}

TEST_F(JobEndingTest, WorkersThatStopWithThoseOfOtherHostsEndTheJobAndNobodyTakesTheirPlace) {
  EndedWorker worker = member(1, fails(128 + SIGTERM));
  worker.view.done = worker.view.others = true;
  EXPECT_EQ(bury(worker).judgement.verdict, EndingVerdict::kStopped);
  EXPECT_TRUE(ending_.admits_nobody());
  EXPECT_TRUE(ending_.over(trains_));
  // The order comes while the others end.
  EXPECT_EQ(ending_.signal_to_pass(0, true, trains_), SIGTERM);
  worker.rank = 0;
  EXPECT_EQ(bury(worker).judgement.verdict, EndingVerdict::kStopped);
  EXPECT_EQ(ending_.exit_code(), 128 + SIGTERM);
}

TEST_F(JobEndingTest, FailuresAreCountedInARowAndForgottenWhenAMemberHasLasted) {
  EndedWorker worker = member(0, kIsKilled);
  worker.failures = 3;
  worker.member_for = control::kForgiven;
  EXPECT_EQ(bury(worker).failures, 4);
  worker.member_for += 1ns;
  EXPECT_EQ(bury(worker).failures, 1);
  worker.view.member = false;
  EXPECT_EQ(bury(worker).failures, 4) << "it was no member";
}

TEST_F(JobEndingTest, ThatAPlaceStaysEmptyIsToldOnce) {
  EndedWorker worker = member(2, kIsKilled);
  worker.failures = control::kMostFailures - 1;
  EXPECT_THAT(
      bury(worker).told,
      ElementsAre(HasSubstr("is lost"), "worker 2 has failed 5 times in a row: its place stays empty for 10 minutes"));
  worker.failures = control::kMostFailures;
  EXPECT_THAT(bury(worker).told, ElementsAre(HasSubstr("is lost")));
}

TEST_F(JobEndingTest, AMistakeOfAReplacementLeavesItsPlaceEmptyAtOnce) {
  EndedWorker worker = newcomer(1, fails(2));
  worker.view.began = worker.view.others = true;
  const Aftermath after = bury(worker);
  EXPECT_EQ(after.failures, control::kMostFailures);
  EXPECT_THAT(after.told, ElementsAre(HasSubstr("is lost: exit code 2"),
                                      HasSubstr("worker 1 says that it was started with a mistake")));
}

TEST_F(JobEndingTest, TwoThatCrashAlikeBeforeTheirFirstStepEndTheJob) {
  EndedWorker worker = member(0, kCrashes);
  worker.saw_no_step = true;
  bury(worker);
  EXPECT_FALSE(ending_.over(trains_));
  worker.rank = 1;
  EXPECT_THAT(bury(worker).told, ElementsAre(HasSubstr("is lost"), HasSubstr("the job ends: worker 1 has ended")));
  EXPECT_TRUE(ending_.over(trains_));
  EXPECT_EQ(ending_.exit_code(), 128 + SIGSEGV);
}

TEST_F(JobEndingTest, ThoseThatHaveSeenAStepMayCrash) {
  for (int time = 0; time < 4; ++time)
    bury(member(0, kCrashes));
  EXPECT_FALSE(ending_.over(trains_));
}

TEST_F(JobEndingTest, ALaneThatKillsTwoWorkersIsFound) {
  EndedWorker worker = member(0, kIsKilled);
  worker.lanes = {{4, 2}};
  bury(worker);
  worker.lanes = {{5, 2}};
  bury(worker);
  EXPECT_FALSE(ending_.deadly_lane()) << "of another step";
  worker.silent = true;
  bury(worker);
  EXPECT_FALSE(ending_.deadly_lane()) << "it was stopped from outside";
  worker.silent = false;
  bury(worker);
  EXPECT_EQ(ending_.deadly_lane(), (LaneOfStep{5, 2}));
}

TEST_F(JobEndingTest, ALaneThatMakesTwoWorkersFailEndsTheJobAsTheySaid) {
  EndedWorker worker = member(0, fails(9));
  worker.lanes = {{4, 2}};
  bury(worker);
  bury(worker);
  EXPECT_FALSE(ending_.deadly_lane()) << "they have said why";
  EXPECT_TRUE(ending_.over(trains_));
  EXPECT_EQ(ending_.exit_code(), 9);
}

TEST_F(JobEndingTest, HowTheLastMemberFailedIsRememberedUntilOneIsKilled) {
  bury(member(0, fails(3)));
  EXPECT_EQ(ending_.failure(), 3);
  bury(member(1, kIsKilled));
  EXPECT_EQ(ending_.failure(), 0);
}

TEST_F(JobEndingTest, ThoseWhoAreLeftWhenTheJobIsDoneHaveTheirGrace) {
  EXPECT_FALSE(ending_.hurry(trains_).kill_all);
  bury(member(0, kEndsWell));
  EXPECT_TRUE(ending_.finishing());
  EXPECT_TRUE(ending_.admits_nobody());
  JobEnding::Hurry hurry = ending_.hurry(trains_);
  EXPECT_TRUE(hurry.kill_newcomers);
  EXPECT_FALSE(hurry.tell);
  EXPECT_FALSE(hurry.kill_all);
  clock_.advance(5s - 1ns);
  EXPECT_FALSE(ending_.hurry(trains_).kill_all);
  clock_.advance(1ns);
  EXPECT_TRUE(ending_.hurry(trains_).kill_all);
  EXPECT_EQ(ending_.exit_code(), 0);
}

TEST_F(JobEndingTest, ASignalHasTheWorkersGrace) {
  bury(member(0, kEndsWell));
  EXPECT_EQ(ending_.signal_to_pass(SIGTERM, false, trains_), SIGTERM);
  clock_.advance(1h);
  EXPECT_FALSE(ending_.hurry(trains_).kill_all);
}

TEST_F(JobEndingTest, AUsersProgramMayTakeItsTimeUnlessItHasFailed) {
  JobEnding users(std::nullopt, clock_);
  const auto plain = [](const Ending&) { return std::string(); };
  users.bury(member(0, kEndsWell), plain);
  users.hurry(trains_);
  clock_.advance(24h);
  EXPECT_FALSE(users.hurry(trains_).kill_all);
  EndedWorker broken = member(1, kIsKilled);
  broken.view.fixed = true;
  users.bury(broken, plain);
  EXPECT_FALSE(users.hurry(trains_).kill_all);
  clock_.advance(5s);
  EXPECT_TRUE(users.hurry(trains_).kill_all);
  EXPECT_THAT(muster::testing::error_of([&] { users.exit_code(); }).what(), HasSubstr("worker 1 (pid 101) was killed"));
}

TEST_F(JobEndingTest, WhereNobodyCanBeginThoseWhoTrainAreToldOnceAndTheOthersGo) {
  EXPECT_THAT(bury(newcomer(0, fails(7))).told, IsEmpty()) << "a worker of ours has said why";
  EXPECT_EQ(ending_.exit_code(), 7);
  EXPECT_TRUE(ending_.over(begins_));
  EXPECT_TRUE(ending_.hurry(begins_).kill_newcomers);
  EXPECT_TRUE(ending_.hurry(trains_).tell);
  EXPECT_FALSE(ending_.hurry(trains_).tell);
}

class GaveUp : public JobEndingTest {
 protected:
  GaveUp() { give_up(); }
  void give_up() {
    EndedWorker worker = newcomer(1, fails(7));
    worker.view.founder_lives = true;
    worker.founder = 100;
    EXPECT_EQ(bury(worker).failures, 1);
  }
  static JobEnding::Now now(bool members, pid_t founder) { return {.members = members, .founder = founder}; }
};

TEST_F(GaveUp, EndsTheJobOnceItsFounderHadTimeToDie) {
  clock_.advance(1s);
  EXPECT_FALSE(ending_.judge_who_gave_up(now(false, 100)));
  EXPECT_FALSE(ending_.over(begins_));
  clock_.advance(1ns);
  EXPECT_FALSE(ending_.judge_who_gave_up(now(false, 100))) << "it has said why";
  EXPECT_TRUE(ending_.over(begins_));
  EXPECT_EQ(ending_.exit_code(), 7);
}

TEST_F(GaveUp, SaysNothingWhenItsFounderDied) {
  for (const pid_t other : {0, 101}) {
    give_up();
    EXPECT_FALSE(ending_.judge_who_gave_up(now(false, other)));
    clock_.advance(1h);
    EXPECT_FALSE(ending_.judge_who_gave_up(now(false, 100))) << "forgotten";
    EXPECT_FALSE(ending_.over(begins_));
  }
}

TEST_F(GaveUp, IsOneThatIsLostWhenOthersTrain) {
  EXPECT_EQ(ending_.judge_who_gave_up(now(true, 100)),
            "worker 1 (pid 101) is lost: exit code 7, before it could train");
  clock_.advance(1h);
  EXPECT_FALSE(ending_.judge_who_gave_up(now(false, 100)));
  EXPECT_FALSE(ending_.over(trains_));
}

TEST_F(JobEndingTest, OneThatLeavesAProgramOfAUsersEarlyIsFoundWhenOthersTrainOn) {
  JobEnding users(std::nullopt, clock_);
  EndedWorker worker = member(1, kEndsWell);
  worker.step = 5;
  users.bury(worker, [](const Ending&) { return std::string(); });
  EXPECT_THAT(users.early_leavers({.generation = 1, .members = true, .step = 5}), IsEmpty());
  EXPECT_THAT(users.early_leavers({.generation = 1, .members = false, .step = 6}), IsEmpty());
  EXPECT_TRUE(users.finishing());
  const std::vector<JobEnding::Leaver> left = users.early_leavers({.generation = 1, .members = true, .step = 6});
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].rank, 1);
  EXPECT_EQ(left[0].told,
            "worker 1 (pid 101) has left after step 5 without an error, and the others train on: its place stays "
            "empty");
  EXPECT_FALSE(users.finishing());
  EXPECT_THAT(users.early_leavers({.generation = 1, .members = true, .step = 7}), IsEmpty());
  bury(worker);
  EXPECT_THAT(ending_.early_leavers({.generation = 1, .members = true, .step = 6}), IsEmpty()) << "ours end together";
}

TEST_F(JobEndingTest, OneThatLeavesBeforeAnybodyTrainsIsEarlyWhenAnotherIsReady) {
  JobEnding users(std::nullopt, clock_);
  users.bury(newcomer(1, kEndsWell), [](const Ending&) { return std::string(); });
  EXPECT_THAT(users.early_leavers({}), IsEmpty());
  EXPECT_EQ(users.early_leavers({.ready = true}).size(), 1U);
}

TEST_F(JobEndingTest, ASignalIsPassedOnOnceAndAnotherOneAgain) {
  EXPECT_EQ(ending_.signal_to_pass(0, false, trains_), 0);
  EXPECT_EQ(ending_.signal_to_pass(0, true, trains_), SIGTERM);
  EXPECT_EQ(ending_.signal_to_pass(0, true, trains_), 0);
  EXPECT_EQ(ending_.signal_to_pass(SIGINT, true, trains_), SIGINT);
  EXPECT_EQ(ending_.signal_to_pass(SIGKILL, true, trains_), SIGKILL);
  EXPECT_EQ(ending_.signal_to_pass(SIGKILL, true, trains_), 0);
}

TEST_F(JobEndingTest, AStopReachesThoseWhoComeWhenAllWhoWereToldAreLost) {
  EXPECT_EQ(ending_.signal_to_pass(0, true, empty_), 0) << "somebody has to be there to stop";
  EXPECT_FALSE(ending_.admits_nobody());
  EXPECT_EQ(ending_.signal_to_pass(0, true, trains_), SIGTERM);
  EXPECT_TRUE(ending_.admits_nobody());
  EXPECT_EQ(ending_.signal_to_pass(0, true, empty_), 0);
  EXPECT_FALSE(ending_.admits_nobody()) << "others have to end the job";
  EXPECT_EQ(ending_.signal_to_pass(0, true, trains_), SIGTERM);
  EXPECT_EQ(ending_.signal_to_pass(SIGKILL, true, empty_), SIGKILL) << "at once is at once";
}

TEST_F(JobEndingTest, AJobThatHasNotBegunIsOverWhenItIsToldToEnd) {
  EXPECT_FALSE(ending_.over(begins_));
  EXPECT_EQ(ending_.signal_to_pass(SIGTERM, false, begins_), SIGTERM);
  EXPECT_TRUE(ending_.over(begins_));
}

TEST_F(JobEndingTest, TheFirstRankSaysHowAStopEnded) {
  ending_.signal_to_pass(SIGTERM, false, trains_);
  bury(member(1, fails(1)));
  EXPECT_EQ(ending_.exit_code(), 1);
  bury(member(0, fails(143)));
  bury(member(2, fails(2)));
  EXPECT_EQ(ending_.exit_code(), 143);
  EXPECT_TRUE(ending_.stopped());
}

TEST_F(JobEndingTest, OneThatWasTakenOverEndsAsItHasSaid) {
  EndedWorker worker = member(0, {.unknown = true});
  worker.view.done = true;
  EXPECT_EQ(bury(worker).judgement.verdict, EndingVerdict::kFinished);
  ending_.signal_to_pass(SIGTERM, false, trains_);
  EXPECT_EQ(bury(worker).judgement.verdict, EndingVerdict::kStopped);
  EXPECT_EQ(ending_.exit_code(), 143);
}

}  // namespace
}  // namespace muster::launch
