// The supervisor with workers that come, fail, are lost and end.
#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "support/memory_groups.h"
#include "support/starvation.h"
#include "unit/launch/supervisor_fixture.h"

namespace muster::launch {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(SupervisorTest, AWorkerIsToldItsSeatItsAttemptAndWhereTheOthersAre) {
  const TemporaryFolder folder;
  const std::string out = folder.path().string();
  // Nobody ends before both have written: the others are killed once one has ended well.
  EXPECT_EQ(run(shell("cd " + out + " && test -d $MUSTER_STORE || exit 1; " +
                      "echo $MUSTER_SIZE $MUSTER_ARENA $MUSTER_ATTEMPT $MUSTER_STORE > $MUSTER_RANK; " +
                      "while ! test -s 0 || ! test -s 1; do sleep 0.01; done"),
                2),
            0);
  std::string first = slurp(folder / "0");
  EXPECT_THAT(first, StartsWith("2 found 0 /"));
  EXPECT_THAT(slurp(folder / "1"), StartsWith("2 join 0 /"));
  const std::string store = first.substr(10, first.size() - 11);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(store).parent_path())) << "its folder is removed";
}

TEST_F(SupervisorTest, OneThatGivesUpBeforeItCanTrainEndsTheJobWithItsCode) {
  clock_ = &quick_clock_;
  EXPECT_EQ(run(shell("test $MUSTER_RANK = 1 && exit 7; exec sleep 600"), 2), 7);
  EXPECT_EQ(told_, "") << "the worker has said why";
}

TEST_F(SupervisorTest, ThoseThatCrashBeforeTheirFirstStepAreNotStartedAgainAndAgain) {
  options_.grace.reset();
  EXPECT_EQ(run(worker("crash"), 2), 128 + SIGSEGV);
  EXPECT_THAT(told_, AllOf(HasSubstr("the job ends: worker"), HasSubstr("Segmentation fault")));
  EXPECT_EQ(run(worker("crash"), 1), 128 + SIGSEGV);
  told_.clear();
  EXPECT_EQ(run(worker("crash-as-member"), 2), 128 + SIGABRT);
  EXPECT_THAT(told_, HasSubstr("the job ends: worker"));
  EXPECT_THAT(told_, Not(HasSubstr("--resume")));
}

TEST_F(SupervisorTest, AMistakeThatAReplacementSaysIsNotRepeated) {
  // Told once: its place stays empty, and the others train on.
  EXPECT_EQ(run(worker("mistaken"), 2,
                {trains({0, 1}), send(SIGKILL, {1}), [](const auto& report) { return members_are(report, {0}); },
                 trains({0}), [](const auto& report) { return report.step > 500; }, trains({0}), send(SIGUSR2, {0})}),
            0);
  EXPECT_THAT(told_, HasSubstr("worker 1 says that it was started with a mistake"));
  EXPECT_EQ(told_.find("mistake", told_.find("mistake") + 1), std::string::npos) << told_;
}

TEST_F(SupervisorTest, OneThatGivesUpBeforeItTrainsIsToldOfWhenTheOthersTrain) {
  EXPECT_EQ(run(worker("gives-up"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1})}), 0);
  EXPECT_THAT(told_, AllOf(HasSubstr("worker 1 (pid "), HasSubstr("exit code 3")));
}

TEST_F(SupervisorTest, OneThatIsStoppedBeforeItTrainsIsReplaced) {
  clock_ = &quick_clock_;
  for (const bool ours : {true, false}) {
    if (!ours) options_.grace.reset();
    told_.clear();
    last_ = {};
    EXPECT_EQ(run(worker("stops"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1})}), 0);
    EXPECT_THAT(told_, AllOf(HasSubstr("worker 0 (pid "), HasSubstr("is stopped"), HasSubstr("it is killed")));
  }
}

TEST_F(SupervisorTest, OneThatAShellSaysWasKilledIsReplaced) {
  EXPECT_EQ(run(worker("shell-says-killed"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1})}), 0);
}

TEST_F(SupervisorTest, AWorkerThatWasRefusedEndsTheJob) {
  clock_ = &quick_clock_;
  for (const bool ours : {true, false}) {
    if (!ours) options_.grace.reset();
    told_.clear();
    EXPECT_EQ(run(worker("refused"), 2), 2);
    EXPECT_THAT(told_, HasSubstr("worker 1 was refused"));
  }
}

TEST_F(SupervisorTest, OneThatLeavesWhileOthersTrainOnIsMentionedAndThoseAreReplacedAsBefore) {
  options_.grace.reset();  // of a user's program
  EXPECT_EQ(run(worker("train"), 2,
                {trains({0, 1}), send(SIGUSR2, {1}), trains({0}), trains({0}),
                 [this](const auto&) { return told_.find("has left") != std::string::npos; }, send(SIGKILL, {0}),
                 [this](const auto& report) { return members_are(report, {0}) && pids_of(report) != pids_; },
                 trains({0}), send(SIGUSR2, {0})}),
            0);
  EXPECT_THAT(told_, HasSubstr("worker 1 (pid"));
  EXPECT_EQ(told_.find("has left", told_.find("has left") + 1), std::string::npos) << told_;
}

TEST_F(SupervisorTest, OneThatLeavesBeforeAnybodyTrainsDoesNotHoldUpTheOthers) {
  options_.grace.reset();
  EXPECT_EQ(run(worker("leave"), 2, {trains({0}), send(SIGUSR2, {0})}), 0);
  EXPECT_THAT(told_, HasSubstr("worker 1 (pid"));
}

TEST_F(SupervisorTest, ReportsWhoTrainsWhereAndSince) {
  const auto looks = [&](const SupervisorReport& report) {
    if (report.step < 5) return false;  // the workers leave a note in the fourth
    EXPECT_EQ(report.generation, 1U);
    EXPECT_THAT(report.note, MatchesRegex("[0-9]+[a-z]+"));
    for (const control::Worker& worker : report.workers) {
      EXPECT_EQ(worker.restarts, 0);
      EXPECT_EQ(state_of(worker.process), ProcessState::kRunning);
      EXPECT_GT(worker.process.start_time, 0U);
    }
    return send(SIGUSR2, {0, 1})(report);
  };
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), looks}), 0);
}

TEST_F(SupervisorTest, ALostWorkerIsReplacedAndTheOthersStay) {
  std::map<int, pid_t> before;
  const auto kill_one = [&](const SupervisorReport& report) {
    before = pids_;
    return send(SIGKILL, {1})(report);
  };
  EXPECT_EQ(
      run(worker("train"), 3,
          {trains({0, 1, 2}), kill_one,
           [&](const auto& report) { return pids_of(report).contains(1) && pids_of(report).at(1) != before.at(1); },
           trains({0, 1, 2}), send(SIGUSR2, {0, 1, 2})}),
      0);
  EXPECT_EQ(pids_.at(0), before.at(0));
  EXPECT_NE(pids_.at(1), before.at(1));
  EXPECT_EQ(pids_.at(2), before.at(2));
  EXPECT_THAT(told_, HasSubstr(fmt::format("worker 1 (pid {}) is lost: killed by signal 9", before.at(1))));
}

TEST_F(SupervisorTest, AllMayBeLostAndOthersGoOnInTheArena) {
  std::uint64_t step = 0;
  const auto kill_all = [&](const SupervisorReport& report) {
    step = report.step;
    return send(SIGKILL, {0, 1})(report);
  };
  EXPECT_EQ(run(worker("train"), 2,
                {trains({0, 1}), kill_all, [](const auto& report) { return report.generation > 1; }, trains({0, 1}),
                 send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_GT(last_.step, step);
}

// One that fails by itself says nothing about a job that others train, however many do it later by a signal.
TEST_F(SupervisorTest, AFailureThatWasMadeGoodDoesNotEndTheJobLater) {
  clock_ = &quick_clock_;
  EXPECT_EQ(run(worker("train"), 2,
                {trains({0, 1}), send(SIGUSR1, {1}), [](const auto& report) { return report.generation > 1; },
                 trains({0, 1}), send(SIGKILL, {0, 1}), [&](const auto& report) { return pids_of(report) != pids_; },
                 trains({0, 1}), send(SIGUSR2, {0, 1, 2})}),
            0);
}

TEST_F(SupervisorTest, ReplacementsThatFailDoNotEndAJobThatOthersTrain) {
  EXPECT_EQ(run(worker("train-once"), 2,
                {trains({0, 1}), send(SIGKILL, {1}), trains({0}),
                 [&](const auto&) { return told_.find("exit code 7") != std::string::npos; }, trains({0}),
                 send(SIGUSR2, {0, 1, 2})}),
            0);
}

TEST_F(SupervisorTest, WhenAllEndByThemselvesTheJobEndsWithTheirCode) {
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), send(SIGUSR1, {0, 1})}), 3);
}

TEST_F(SupervisorTest, ASilentWorkerIsKilledAndReplaced) {
  options_.watch.liveness = 400ms;
  pid_t silent = 0;
  const auto stop_one = [&](const SupervisorReport& report) {
    silent = pids_.at(1);
    return send(SIGSTOP, {1})(report);
  };
  EXPECT_EQ(run(worker("train"), 2,
                {trains({0, 1}), stop_one,
                 [&](const auto&) {
                   return state_of({silent, 0}) == ProcessState::kGone;
                 },
                 trains({0, 1}), send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_THAT(told_, ContainsRegex(fmt::format("worker 1 .pid {}. gave no sign of life for [0-9.]+ s: it is stopped; "
                                               "it is killed",
                                               silent)));
}

// It wants to run and is not let: nobody can take that for a sign of death.
TEST_F(SupervisorTest, AStarvedWorkerIsWaitedForAndAStoppedOneIsFoundEvenThen) {
  if (const std::string obstacle = muster::testing::StarvingGroup::obstacle(); !obstacle.empty())
    GTEST_SKIP() << obstacle;
  muster::testing::StarvingGroup group;
  options_.watch.liveness = 400ms;
  std::map<int, pid_t> before;
  std::optional<Deadline> starved;
  const auto starve = [&](const SupervisorReport&) {
    before = pids_;
    starved = Deadline::after(4s);
    return group.add(before.at(1)) && group.starve();
  };
  const auto stop_one = [&](const SupervisorReport& report) {
    EXPECT_EQ(told_, "") << "somebody was taken for dead";
    EXPECT_EQ(pids_, before);
    return group.starve() && send(SIGSTOP, {1})(report);
  };
  EXPECT_EQ(run(worker("train"), 2,
                {trains({0, 1}), starve, [&](const auto&) { return starved->passed() && group.feed(); }, trains({0, 1}),
                 stop_one,
                 [&](const auto&) {
                   return state_of({before.at(1), 0}) == ProcessState::kGone;
                 },
                 trains({0, 1}), send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_THAT(told_, HasSubstr(fmt::format("worker 1 (pid {}) gave no sign of life", before.at(1))));
}

// A large index, a large checkpoint: nobody knows how long it takes.
TEST_F(SupervisorTest, AReplacementThatIsSlowToStartIsWaitedForWhileTheOthersTrain) {
  options_.watch.start = 2s;  // half of what it takes
  EXPECT_EQ(run(worker("busy-start"), 2,
                {trains({0, 1}), send(SIGKILL, {1}), [](const auto& report) { return report.generation > 1; },
                 [since = std::optional<std::uint64_t>()](const auto& report) mutable {
                   if (!since) since = report.step;
                   return report.step > *since + 5 && report.workers.size() == 2 &&
                          report.workers[1].state == WorkerState::kStarting;
                 },
                 [this](const auto& report) {
                   return members_are(report, {0, 1});
                 },
                 trains({0, 1}), send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_EQ(told_.find("has not begun"), std::string::npos) << told_;
}

TEST_F(SupervisorTest, AReplacementThatDoesNothingAtAllIsKilledWithTheReason) {
  options_.watch.start = 500ms;
  EXPECT_EQ(run(worker("idle-start"), 2,
                {trains({0, 1}), send(SIGKILL, {1}),
                 [&](const auto&) { return told_.find("has not begun to train") != std::string::npos; }, trains({0, 1}),
                 send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_THAT(told_, HasSubstr("it has neither computed nor read or written anything; it is killed"));
}

TEST_F(SupervisorTest, WishesChangeHowManyTrain) {
  const auto wish = [&](int workers) {
    return [this, workers](const SupervisorReport&) {
      wishes_.workers = workers;
      return true;
    };
  };
  pid_t first = 0;
  const auto remember = [&](const SupervisorReport&) {
    first = pids_.at(0);
    return true;
  };
  wishes_.workers = 2;
  EXPECT_EQ(run(worker("train"), 3,
                {trains({0, 1}), remember, wish(3), trains({0, 1, 2}), wish(1), trains({0}), wish(2), trains({0, 1}),
                 send(SIGUSR2, {0, 1, 2})}),
            0);
  EXPECT_EQ(pids_.at(0), first) << "the first is there all the time";
  EXPECT_EQ(told_, "") << "nobody was lost";
}

TEST_F(SupervisorTest, HowOneTooManyEndsSaysNothingAboutTheJob) {
  const auto shrink_and_end = [&](const SupervisorReport&) {
    wishes_.workers = 1;
    signal_ = SIGUSR2;
    return true;
  };
  EXPECT_EQ(run(worker("train"), 3, {trains({0, 1, 2}), shrink_and_end}), 0);
}

TEST_F(SupervisorTest, ASignalIsPassedOnAndTheWorkersSayHowItEnds) {
  const auto ask = [&](const SupervisorReport&) {
    signal_ = SIGTERM;
    return true;
  };
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), ask}), 143);
}

TEST_F(SupervisorTest, AWishToStopIsASignalToo) {
  const auto ask = [&](const SupervisorReport&) {
    wishes_.stop = true;
    return true;
  };
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), ask}), 143);
}

TEST_F(SupervisorTest, AJobWithoutWorkersIsStoppedByThoseWhoCome) {
  const auto stop_and_kill_all = [&](const SupervisorReport& report) {
    wishes_.stop = true;
    return send(SIGKILL, {0, 1})(report);
  };
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), stop_and_kill_all}), 143);
  EXPECT_GT(last_.generation, 1U);
}

TEST_F(SupervisorTest, WhoIsLostWhileItStopsIsReplacedByOneThatStops) {
  const auto ask = [&](const SupervisorReport&) {
    wishes_.stop = true;
    return true;
  };
  EXPECT_EQ(run(worker("dies-when-told"), 2, {trains({0, 1}), ask}), 143);
  EXPECT_GT(last_.generation, 1U);
}

TEST_F(SupervisorTest, WhoInsistsIsObeyedAtOnce) {
  const auto ask = [&](const SupervisorReport&) {
    wishes_.stop = true;
    return true;
  };
  const auto insist = [&](const SupervisorReport&) {
    signal_ = SIGKILL;
    return true;
  };
  EXPECT_EQ(run(worker("stubborn"), 2, {trains({0, 1}), ask, trains({0, 1}), insist}), 137);
}

TEST_F(SupervisorTest, ASignalCountsAlsoWhenTheJobWasToldToStop) {
  const auto ask = [&](const SupervisorReport&) {
    wishes_.stop = true;
    return true;
  };
  const auto insist = [&](const SupervisorReport&) {
    signal_ = SIGUSR2;  // what stubborn workers listen to
    return true;
  };
  EXPECT_EQ(run(worker("stubborn"), 2, {trains({0, 1}), ask, trains({0, 1}), insist}), 0);
}

TEST_F(SupervisorTest, ThoseWhoDoNotEndWithTheJobAreKilledAfterItsGrace) {
  options_.grace = 100ms;
  EXPECT_EQ(run(worker("train"), 2, {trains({0, 1}), send(SIGUSR2, {1})}), 0);
  EXPECT_EQ(state_of({pids_.at(0), 0}), ProcessState::kGone);
}

TEST_F(SupervisorTest, ALaneThatKillsTwoWorkersEndsTheJob) {
  Command command = worker("train");
  command.environment["MUSTER_FAILPOINTS"] = "arena.start.after=kill@step=4";
  options_.describe_lane = [](std::uint64_t step, int lane) { return fmt::format("samples of {}.{}", step, lane); };
  try {
    run(command, 2);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCompute);
    EXPECT_THAT(error.what(), ContainsRegex("lane [0-4] of step 5 has killed 2 workers; samples of 4.[0-4]"));
  }
}

// It was stopped, or starved, from outside: what it computed then has nothing to do with it.
TEST_F(SupervisorTest, ASilentWorkerDoesNotCountAgainstItsLane) {
  Command command = worker("twice");
  command.environment["MUSTER_FAILPOINTS"] = "arena.start.after=stop@step=4";
  options_.watch.liveness = 400ms;
  EXPECT_EQ(run(command, 1,
                {[](const auto& report) { return !report.workers.empty() && report.workers[0].restarts == 2; },
                 trains({0}), send(SIGUSR2, {0})}),
            0);
  EXPECT_GT(last_.step, 4U) << "the third one finished the step";
}

TEST_F(SupervisorTest, ALackOfMemoryIsNamed) {
  std::optional<TemporaryMemoryGroup> group;
  const std::string obstacle = muster::testing::make_memory_group(group);
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  ASSERT_TRUE(group->set_limit(16 << 20));
  pid_t victim = 0;
  // It is looked at once more, in its new group, before the next stage comes.
  const auto confine = [&](const SupervisorReport&) {
    victim = pids_.at(1);
    return group->add(victim);
  };
  EXPECT_EQ(run(worker("hungry"), 2,
                {trains({0, 1}), confine, send(SIGUSR1, {1}),
                 [&](const auto& report) { return pids_of(report) != pids_; }, trains({0, 1}), send(SIGUSR2, {0, 1})}),
            0);
  EXPECT_THAT(told_, AllOf(HasSubstr(fmt::format("worker 1 (pid {}) is lost: the kernel killed it for lack of memory "
                                                 "(its control group {} may use 16.8 MB)",
                                                 victim, group->group().path.string())),
                           HasSubstr("fewer workers")));
}

TEST_F(SupervisorTest, AnArenaThatDiesWithItsFounderIsMadeAnew) {
  EXPECT_EQ(run(worker("announce-and-die"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1, 2})}), 0);
}

// Processes take their time to die: others find its memory gone, give up and are dead before it is.
TEST_F(SupervisorTest, OneThatGaveUpBeforeItsFounderWasDeadDoesNotEndTheJob) {
  EXPECT_EQ(run(worker("linger"), 2, {trains({0, 1}), send(SIGUSR2, {0, 1, 2})}), 0);
}

// The arena lives on, and whoever comes is told where; one that looked for it at its founder's can only give up.
TEST_F(SupervisorTest, OneThatGivesUpAfterItsFounderWasLostDoesNotEndTheJob) {
  const auto lose_both = [&](const SupervisorReport& report) {
    if (report.workers.size() != 2 || report.workers[0].state != WorkerState::kReady) return false;
    ::kill(report.workers[0].process.pid, SIGKILL);
    ::kill(report.workers[1].process.pid, SIGUSR1);
    for (const control::Worker& worker : report.workers)
      EXPECT_TRUE(testing::eventually([&] { return state_of(worker.process) == ProcessState::kGone; }));
    return true;
  };
  EXPECT_EQ(run(worker("late-joiner"), 2, {lose_both, trains({0, 1}), send(SIGUSR2, {0, 1, 2})}), 0);
}

TEST_F(SupervisorTest, AWorkerOfAFixedGroupIsNotReplaced) {
  const std::string fix = "echo > $MUSTER_STORE/value+fixed; ";
  EXPECT_EQ(run(shell(fix + "test $MUSTER_RANK = 1 && exit 7; exit 0"), 2), 7);
  EXPECT_EQ(run(shell(fix + "test $MUSTER_RANK = 1 || sleep 0.2"), 2), 0) << "the other one is waited for";
  try {
    options_.grace = 100ms;
    run(shell(fix + "test $MUSTER_RANK = 1 && kill -9 $$; exec sleep 600"), 2);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.what(), HasSubstr("worker 1"));
  }
}

TEST_F(SupervisorTest, AProgramThatIsNotThereIsSaid) {
  EXPECT_THROW(run({"/nowhere/at/all", {}, {}}, 2), Error);
}

}  // namespace
}  // namespace muster::launch
