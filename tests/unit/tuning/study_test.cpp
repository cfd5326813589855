// The face for programs: ask and tell, again after a crash, beside other processes, and with a scheduler.
#include "muster/tuning/study.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <set>

#include "muster/base/clock.h"
#include "muster/tuning/schedulers/population.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::tuning {
namespace {

using testing::expect_error;

StudyPlan two_dimensions(std::uint64_t trials, const std::string& searcher = "random") {
  StudyPlan plan;
  plan.name = "plane";
  plan.space = Space({Parameter::uniform("x", -5, 5), Parameter::integer("n", 1, 9),
                      Parameter::choice("kind", {std::string("a"), std::string("b")}),
                      Parameter::uniform("only_b", 0, 1).only_when("kind", {std::string("b")})});
  plan.searcher = searcher_named(searcher);
  plan.budget.trials = trials;
  return plan;
}

double value_of(const Suggestion& trial) {
  return std::pow(trial.real("x") - 1, 2) + static_cast<double>(trial.integer("n"));
}

class StudyTest : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "plane.study"; }
  testing::TemporaryFolder folder_;
};

TEST_F(StudyTest, ALoopEndsWithItsBudgetAndKnowsTheBest) {
  Study study(file(), two_dimensions(25));
  double least = std::numeric_limits<double>::infinity();
  std::uint64_t trials = 0;
  while (const auto trial = study.ask()) {
    EXPECT_EQ(trial->number, trials++);
    EXPECT_EQ(trial->has("only_b"), trial->text("kind") == "b");
    least = std::min(least, value_of(*trial));
    study.tell(*trial, value_of(*trial));
  }
  EXPECT_EQ(trials, 25U);
  ASSERT_TRUE(study.best());
  EXPECT_DOUBLE_EQ(study.best()->result.front(), least);
}

TEST_F(StudyTest, ValuesAreAskedForByNameAndType) {
  Study study(file(), two_dimensions(1));
  const auto trial = study.ask();
  EXPECT_EQ(trial->real("n"), static_cast<double>(trial->integer("n")));
  expect_error(ErrorKind::kNotFound, "nothing", [&] { trial->real("nothing"); });
  expect_error(ErrorKind::kMismatch, "\"x\"", [&] { trial->integer("x"); });
}

// The same proposals, whether the process was killed after each trial or not.
TEST_F(StudyTest, AProcessThatIsKilledBetweenAskAndTellLosesNothing) {
  std::vector<Assignment> straight;
  {
    Study study(folder_ / "straight.study", two_dimensions(12, "tpe"));
    while (const auto trial = study.ask()) {
      straight.push_back(trial->values);
      study.tell(*trial, value_of(*trial));
    }
  }
  for (int turn = 0; turn < 13; ++turn) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Study study(file(), two_dimensions(12, "tpe"));
      // The one that is asked for twice was never told, so it is the same.
      auto trial = study.ask();
      if (trial) study.tell(*trial, value_of(*trial));
      trial = study.ask();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  Study study(file(), two_dimensions(12, "tpe"));
  EXPECT_FALSE(study.ask());
  std::vector<Assignment> killed;
  for (const Trial& trial : study.trials()) {
    EXPECT_EQ(trial.state, State::kFinished);
    killed.push_back(trial.values);
  }
  EXPECT_EQ(killed, straight);
}

TEST_F(StudyTest, SeveralProcessesShareOneStudyWithoutGivingATrialTwice) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Study study(file(), two_dimensions(40));
      while (const auto trial = study.ask())
        study.tell(*trial, static_cast<double>(trial->number));
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  Study study(file());
  const std::vector<Trial> trials = study.trials();
  ASSERT_EQ(trials.size(), 40U);
  for (const Trial& trial : trials)
    EXPECT_EQ(trial.result, std::vector<double>{static_cast<double>(trial.number)});
}

TEST_F(StudyTest, ATrialIsToldOnceAndByWhoHasIt) {
  Study study(file(), two_dimensions(3));
  const auto trial = study.ask();
  study.tell(*trial, 1.0);
  expect_error(ErrorKind::kMismatch, "does not run: it is finished", [&] { study.tell(*trial, 2.0); });
  // And nothing of why it was proposed.
  expect_error(ErrorKind::kMismatch, "What was told first counts.", [&] { study.tell(*trial, 2.0); });
  const auto mine = study.ask();
  Study other(file());
  expect_error(ErrorKind::kMismatch, "another process", [&] { other.tell(*mine, 2.0); });
  study.release(*mine);
  const auto again = other.ask();
  EXPECT_EQ(again->number, mine->number);
  EXPECT_EQ(again->values, mine->values);
  expect_error(ErrorKind::kMismatch, "another process", [&] { study.tell(*mine, 2.0); });
}

TEST_F(StudyTest, AValueThatIsNoNumberIsAFailedTrial) {
  Study study(file(), two_dimensions(2));
  const auto trial = study.ask();
  study.tell(*trial, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(study.trials().at(0).state, State::kFailed);
  EXPECT_THAT(study.trials().at(0).reason, ::testing::HasSubstr("not a number"));
  const auto second = study.ask();
  study.tell_failed(*second, "out of luck");
  EXPECT_EQ(study.trials().at(1).reason, "out of luck");
  EXPECT_FALSE(study.best());
}

TEST_F(StudyTest, AGridEndsTheStudyWhenItIsUsedUp) {
  StudyPlan plan;
  plan.space = Space({Parameter::integer("n", 1, 3), Parameter::choice("flag", {true, false})});
  plan.searcher = searcher_named("grid");
  Study study(file(), plan);
  std::set<std::string> seen;
  while (const auto trial = study.ask()) {
    seen.insert(trial->values.text());
    study.tell(*trial, 0.0);
  }
  EXPECT_EQ(seen.size(), 6U);
}

TEST_F(StudyTest, OfTwoObjectivesThereIsAFrontAndNoBest) {
  StudyPlan plan = two_dimensions(3, "random");
  plan.objectives = {{"loss", Goal::kMinimise}, {"accuracy", Goal::kMaximise}};
  Study study(file(), plan);
  for (const std::vector<double>& values : {std::vector{1.0, 0.5}, std::vector{2.0, 0.9}, std::vector{2.0, 0.4}})
    study.tell(*study.ask(), values);
  expect_error(ErrorKind::kInvalidInput, "no best trial", [&] { study.best(); });
  const std::vector<Trial> front = study.front();
  ASSERT_EQ(front.size(), 2U);
  EXPECT_EQ(front[0].number, 0U);
  EXPECT_EQ(front[1].number, 1U);
}

// A grid has fewer points than a bracket would like, or than the budget: who is paused then is judged all the same.
TEST_F(StudyTest, AGridUnderASchedulerBringsSomebodyToTheEndAndLeavesNobodyPaused) {
  for (const char* scheduler : {"asha", "halving", "hyperband"}) {
    for (const std::uint64_t budget : {0, 5, 100}) {
      StudyPlan plan;
      plan.space = Space({Parameter::integer("n", 1, 8)});
      plan.searcher = searcher_named("grid");
      plan.scheduler = scheduler_named(scheduler);
      plan.max_resource = 9;
      plan.budget.trials = budget;
      Study study(folder_ / fmt::format("{}-{}.study", scheduler, budget), plan);
      while (const auto trial = study.ask(std::chrono::seconds(1))) {
        const auto cost = static_cast<double>(trial->integer("n"));
        bool goes_on = true;
        for (std::uint64_t epoch = trial->resource + 1; epoch <= 9 && goes_on; ++epoch)
          goes_on = study.report(*trial, epoch, cost);
        if (goes_on) study.tell(*trial, cost);
      }
      std::uint64_t finished = 0;
      for (const Trial& trial : study.trials()) {
        EXPECT_TRUE(ended(trial.state)) << scheduler << " " << budget << ": trial " << trial.number;
        finished += trial.state == State::kFinished ? 1 : 0;
      }
      EXPECT_GE(finished, 1U) << scheduler << " " << budget;
      EXPECT_EQ(study.trials().size(), budget == 5 ? 5U : 8U) << scheduler;
    }
  }
}

// Copies have numbers, too; they take no given point from the members that begin later.
TEST_F(StudyTest, EveryGivenPointIsTriedBesideCopies) {
  StudyPlan plan;
  plan.space = Space({Parameter::uniform("x", 0, 1)});
  plan.searcher = searcher_named("random");
  plan.max_resource = 4;
  plan.scheduler = PopulationBased{.population = 4, .interval = 1};
  plan.budget.trials = 4;
  for (const double x : {0.9, 0.1, 0.5, 0.7})
    plan.points.push_back({{"x", x}});
  Study study(file(), plan);
  // Two at a time, so that copies are made before all have begun.
  const auto asked = [&]() -> std::optional<Suggestion> {
    try {
      return study.ask(std::chrono::seconds(0));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();  // what is left depends on the one that runs
      return std::nullopt;
    }
  };
  std::vector<Suggestion> running;
  for (;;) {
    while (running.size() < 2) {
      const auto trial = asked();
      if (!trial) break;
      running.push_back(*trial);
    }
    if (running.empty()) break;
    const Suggestion trial = running.front();
    running.erase(running.begin());
    bool goes_on = true;
    for (std::uint64_t epoch = trial.resource + 1; epoch <= 4 && goes_on; ++epoch)
      goes_on = study.report(trial, epoch, trial.real("x"));
    if (goes_on) study.tell(trial, trial.real("x"));
  }
  std::vector<double> begun;
  for (const Trial& trial : study.trials()) {
    if (!trial.lineage) begun.push_back(std::get<double>(*trial.values.find("x")));
  }
  EXPECT_EQ(begun, (std::vector<double>{0.9, 0.1, 0.5, 0.7}));
  EXPECT_GT(study.trials().size(), 4U);
}

TEST_F(StudyTest, ABudgetOfEpochsEndsALoopToo) {
  StudyPlan plan = two_dimensions(0);
  plan.max_resource = 3;
  plan.budget.epochs = 12;
  Study study(file(), plan);
  std::uint64_t trials = 0;
  while (const auto trial = study.ask()) {
    ASSERT_LT(++trials, 9U);
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch)
      study.report(*trial, epoch, 1.0);
    study.tell(*trial, 1.0);
  }
  EXPECT_EQ(trials, 4U);
}

TEST_F(StudyTest, ABudgetOfTimeEndsALoopOfShortProcesses) {
  StudyPlan plan = two_dimensions(0);
  plan.budget.seconds = 0.2;
  bool over = false;
  for (int turn = 0; turn < 200 && !over; ++turn) {
    Study study(file(), plan);
    const auto trial = study.ask();
    over = !trial.has_value();
    // sleeps: the time of a trial is what is spent
    system_clock().sleep_for(std::chrono::milliseconds(2));
    if (trial) study.tell(*trial, 1.0);
  }
  EXPECT_TRUE(over);
}

// More results of earlier studies than an entry of a store holds.
TEST_F(StudyTest, AWarmStartMayBeLarge) {
  StudyPlan plan = two_dimensions(2, "tpe");
  for (int i = 0; i < 12000; ++i) {
    const double x = -5 + 10 * (i / 12000.0);
    plan.known.push_back({{{"x", x}, {"n", std::int64_t{3}}, {"kind", "a"}}, {std::abs(x - 2)}});
  }
  const StudyPlan wanted = plan;
  { Study study(file(), plan); }
  Study study(file());
  EXPECT_EQ(study.plan().json(), wanted.json());
  // The model is there from the first trial on.
  study.ask();
  EXPECT_THAT(study.trials().at(0).reason, ::testing::HasSubstr("times as likely"));
}

// As many members as trials: all come to their end, and copies take nobody's place.
TEST_F(StudyTest, APopulationAsLargeAsItsBudgetTrainsToItsEnd) {
  StudyPlan plan = two_dimensions(4);
  plan.space = Space({Parameter::uniform("x", -5, 5)});
  plan.max_resource = 6;
  plan.scheduler = PopulationBased{.population = 4, .interval = 1};
  Study study(file(), plan);
  while (const auto trial = study.ask()) {
    bool goes_on = true;
    for (std::uint64_t epoch = trial->resource + 1; epoch <= 6 && goes_on; ++epoch)
      goes_on = study.report(*trial, epoch, std::abs(trial->real("x")));
    if (goes_on) study.tell(*trial, std::abs(trial->real("x")));
  }
  std::set<std::uint64_t> whole;
  std::uint64_t copies = 0;
  for (const Trial& trial : study.trials()) {
    if (trial.state == State::kFinished && trial.resource() == 6) whole.insert(trial.group);
    if (trial.lineage) ++copies;
  }
  EXPECT_EQ(whole.size(), 4U);
  EXPECT_GT(copies, 0U);
}

}  // namespace
}  // namespace muster::tuning
