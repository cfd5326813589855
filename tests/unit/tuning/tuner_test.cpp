// The one who acts, with trials that a test plays: what runs, what is written down, and what follows from deaths,
// losses that are no numbers, stops, other processes and schedulers.
#include "muster/tuning/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "muster/control/store.h"
#include "support/sandbox.h"

namespace muster::tuning {
namespace {

using ::testing::HasSubstr;

StudyPlan plan_of(std::uint64_t trials, const std::string& scheduler = "none", std::uint64_t epochs = 1) {
  StudyPlan plan;
  plan.name = "played";
  plan.space = Space({Parameter::uniform("x", 0, 1)});
  plan.searcher = searcher_named("random");
  plan.scheduler = scheduler_named(scheduler);
  plan.max_resource = epochs;
  plan.budget.trials = trials;
  return plan;
}

double x_of(const Trial& trial) {
  return std::get<double>(*trial.values.find("x"));
}

// Plays a trial epoch by epoch: the objective after epoch e is x + 1/e. What goes wrong is asked of the test.
class PlayedTrials final : public TrialExecutor {
 public:
  enum class Fate { kGood, kDies, kInvalid, kNotANumber, kRefusesToEnd };

  void start(const Trial& trial, std::uint64_t until) override {
    ++starts[trial.number];
    most_at_once = std::max(most_at_once, ++running_);
    const std::uint64_t last = until == 0 ? epochs : until;
    const Fate fate = fates ? fates(trial, starts[trial.number]) : Fate::kGood;
    if (fate == Fate::kRefusesToEnd) {
      waiting.insert(trial.number);
      return;
    }
    for (std::uint64_t epoch = trial.resource() + 1; epoch <= last; ++epoch) {
      if (fate == Fate::kDies && epoch == last) return end(trial.number, TrialNews::What::kDied, "killed by a test");
      if (fate == Fate::kInvalid) return end(trial.number, TrialNews::What::kFailed, "makes no job");
      TrialNews news;
      news.number = trial.number;
      news.report = {epoch,
                     {fate == Fate::kNotANumber ? std::numeric_limits<double>::quiet_NaN()
                                                : x_of(trial) + 1.0 / static_cast<double>(epoch)}};
      news_.push_back(news);
      ++computed[trial.number][epoch];
    }
    end(trial.number, until == 0 ? TrialNews::What::kFinished : TrialNews::What::kPaused, {});
  }
  void stop(std::uint64_t number) override {
    stopped.insert(number);
    if (waiting.erase(number) == 1) end(number, TrialNews::What::kStopped, {});
  }
  std::vector<TrialNews> wait(std::chrono::milliseconds) override { return std::exchange(news_, {}); }
  void ended(const Trial& trial) override { dropped.insert(trial.number); }
  void best(const Trial& trial) override { kept = trial.number; }

  void end(std::uint64_t number, TrialNews::What what, const std::string& reason) {
    TrialNews news;
    news.number = number;
    news.what = what;
    news.reason = reason;
    news.seconds = 2;
    news.processor_seconds = 3;
    news_.push_back(news);
    --running_;
  }

  std::uint64_t epochs = 1;
  std::function<Fate(const Trial&, int)> fates;
  std::map<std::uint64_t, int> starts;
  std::map<std::uint64_t, std::map<std::uint64_t, int>> computed;
  std::set<std::uint64_t> stopped;
  std::set<std::uint64_t> waiting;
  std::set<std::uint64_t> dropped;
  std::optional<std::uint64_t> kept;
  int most_at_once = 0;

 private:
  int running_ = 0;
  std::vector<TrialNews> news_;
};

class TunerTest : public ::testing::Test {
 protected:
  StudyLog open(const StudyPlan& plan) { return StudyLog(control::make_sqlite_store(folder_ / "study.db"), plan); }
  TunerResult tune(
      StudyLog& log, std::size_t slots = 2, std::function<bool()> stop = [] { return false; }) {
    trials_.epochs = log.plan().max_resource;
    TunerOptions options;
    options.slots = slots;
    options.stop_requested = std::move(stop);
    Tuner tuner(log, trials_, nobody_, options);
    return tuner.run();
  }

  testing::TemporaryFolder folder_;
  PlayedTrials trials_;
  TunerObserver nobody_;
};

TEST_F(TunerTest, RunsTheBudgetInItsSlotsAndKeepsTheBest) {
  StudyLog log = open(plan_of(9));
  tune(log, 3);
  EXPECT_EQ(log.history().ended().size(), 9U);
  EXPECT_LE(trials_.most_at_once, 3);
  std::uint64_t least = 0;
  for (const Trial& trial : log.history().trials()) {
    EXPECT_EQ(trial.state, State::kFinished);
    EXPECT_EQ(trial.result, std::vector<double>{x_of(trial) + 1.0});
    EXPECT_EQ(log.notes(trial.number).processor_seconds, 3);
    if (x_of(trial) < x_of(log.history().at(least))) least = trial.number;
  }
  EXPECT_EQ(trials_.kept, least);
  EXPECT_FALSE(trials_.dropped.contains(least));
  EXPECT_EQ(trials_.dropped.size(), 8U);
}

TEST_F(TunerTest, ATrialThatDiesIsRetriedAndThenFailedWithItsReason) {
  trials_.fates = [](const Trial& trial, int start) {
    if (trial.number == 1) return PlayedTrials::Fate::kDies;
    return trial.number == 2 && start == 1 ? PlayedTrials::Fate::kDies : PlayedTrials::Fate::kGood;
  };
  StudyLog log = open(plan_of(4));
  tune(log);
  EXPECT_EQ(trials_.starts[1], 3);  // once, and two retries
  EXPECT_EQ(log.history().at(1).state, State::kFailed);
  EXPECT_THAT(log.history().at(1).reason, HasSubstr("died 3 times"));
  EXPECT_THAT(log.history().at(1).reason, HasSubstr("killed by a test"));
  EXPECT_EQ(trials_.starts[2], 2);
  EXPECT_EQ(log.history().at(2).state, State::kFinished);
  EXPECT_EQ(log.notes(1).seconds, 6);
}

TEST_F(TunerTest, ValuesThatMakeNoJobFailAtOnce) {
  trials_.fates = [](const Trial& trial, int) {
    return trial.number == 0 ? PlayedTrials::Fate::kInvalid : PlayedTrials::Fate::kGood;
  };
  StudyLog log = open(plan_of(2));
  tune(log);
  EXPECT_EQ(trials_.starts[0], 1);
  EXPECT_EQ(log.history().at(0).reason, "makes no job");
}

TEST_F(TunerTest, ALossThatIsNoNumberEndsTheTrialEarly) {
  trials_.fates = [](const Trial& trial, int) {
    return trial.number == 0 ? PlayedTrials::Fate::kNotANumber : PlayedTrials::Fate::kGood;
  };
  StudyLog log = open(plan_of(3, "none", 4));
  tune(log);
  EXPECT_EQ(log.history().at(0).state, State::kFailed);
  EXPECT_THAT(log.history().at(0).reason, HasSubstr("not a number after epoch 1"));
  EXPECT_TRUE(trials_.stopped.contains(0));
  EXPECT_EQ(log.history().at(1).state, State::kFinished);
}

TEST_F(TunerTest, AStopLetsTrialsKeepTheirStateAndTheNextOneGoesOn) {
  trials_.fates = [](const Trial&, int start) {
    return start == 1 ? PlayedTrials::Fate::kRefusesToEnd : PlayedTrials::Fate::kGood;
  };
  const StudyPlan plan = plan_of(2);
  {
    StudyLog log = open(plan);
    int looks = 0;
    const TunerResult result = tune(log, 2, [&] { return ++looks > 3; });
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(log.history().at(0).state, State::kWaiting);
  }
  StudyLog log = open(plan);
  EXPECT_FALSE(tune(log).interrupted);
  EXPECT_EQ(log.history().size(), 2U);
  EXPECT_EQ(log.history().ended().size(), 2U);
  EXPECT_EQ(log.notes(0).deaths, 0U);
}

TEST_F(TunerTest, ATrialOfThisProcessThatOthersTookIsNotTold) {
  StudyLog log = open(plan_of(1));
  StudyLog other = open(plan_of(1));
  trials_.fates = [](const Trial&, int) { return PlayedTrials::Fate::kRefusesToEnd; };
  bool taken = false;
  tune(log, 1, [&] {
    if (trials_.waiting.empty() || taken) return false;
    // Another process takes this one for lost, and tells a result of its own.
    taken = true;
    other.catch_up();
    StudyEvent event;
    event.kind = EventKind::kLose;
    other.stage(event);
    event = {};
    event.kind = EventKind::kRun;
    event.owner = other.join();
    other.stage(event);
    event = {};
    event.kind = EventKind::kFinish;
    event.objectives = {42.0};
    other.stage(event);
    EXPECT_TRUE(other.commit());
    // And now ours ends, late.
    TrialNews late;
    trials_.waiting.clear();
    trials_.end(0, TrialNews::What::kFinished, {});
    return false;
  });
  EXPECT_TRUE(taken);
  EXPECT_EQ(log.history().at(0).result, std::vector<double>{42.0});
}

// Where others took a trial of this process, and nobody tells anything of it here, it is stopped all the same.
TEST_F(TunerTest, ATrialThatOthersTookIsStoppedHere) {
  StudyLog log = open(plan_of(1));
  StudyLog other = open(plan_of(1));
  trials_.fates = [](const Trial&, int) { return PlayedTrials::Fate::kRefusesToEnd; };
  bool taken = false;
  int looks = 0;
  const TunerResult result = tune(log, 1, [&] {
    if (trials_.waiting.empty() || taken) return ++looks > 100;
    taken = true;
    other.catch_up();
    StudyEvent event;
    event.kind = EventKind::kLose;
    other.stage(event);
    event = {};
    event.kind = EventKind::kRun;
    event.owner = other.join();
    other.stage(event);
    event = {};
    event.kind = EventKind::kFail;
    event.reason = "elsewhere";
    other.stage(event);
    EXPECT_TRUE(other.commit());
    return false;
  });
  EXPECT_TRUE(taken);
  EXPECT_FALSE(result.interrupted);
  EXPECT_TRUE(trials_.stopped.contains(0));
}

// Whoever found it: the best is linked, and what was the best here before is dropped here.
TEST_F(TunerTest, TheBestOfAnotherProcessIsTheBestHere) {
  StudyLog log = open(plan_of(6));
  StudyLog other = open(plan_of(6));
  std::optional<std::uint64_t> theirs;
  int looks = 0;
  tune(log, 1, [&] {
    if (++looks != 3) return false;
    other.catch_up();
    theirs = other.history().size();
    StudyEvent event;
    event.number = *theirs;
    event.values = {{"x", 0.5}};
    other.stage(event);
    event = {};
    event.number = *theirs;
    event.kind = EventKind::kRun;
    event.owner = other.join();
    other.stage(event);
    event = {};
    event.number = *theirs;
    event.kind = EventKind::kFinish;
    event.objectives = {-100.0};
    other.stage(event);
    EXPECT_TRUE(other.commit());
    return false;
  });
  ASSERT_TRUE(theirs);
  EXPECT_EQ(trials_.kept, *theirs);
  EXPECT_EQ(trials_.dropped.size(), 5U);
  EXPECT_FALSE(trials_.dropped.contains(*theirs));
}

// Killed between the commit and what follows from it: the next one links the best and drops the others.
TEST_F(TunerTest, WhatATunerThatWasKilledDidNotDoIsDone) {
  const StudyPlan plan = plan_of(3);
  {
    StudyLog log = open(plan);
    for (std::uint64_t number = 0; number < 3; ++number) {
      StudyEvent event;
      event.number = number;
      event.values = {{"x", 0.5}};
      log.stage(event);
      event = {};
      event.number = number;
      event.kind = EventKind::kRun;
      event.owner = log.join();
      log.stage(event);
      event = {};
      event.number = number;
      event.kind = EventKind::kFinish;
      event.objectives = {number == 1 ? 0.0 : 1.0};
      log.stage(event);
    }
    ASSERT_TRUE(log.commit());
  }
  StudyLog log = open(plan);
  tune(log, 1);
  EXPECT_EQ(trials_.kept, 1U);
  EXPECT_EQ(trials_.dropped, (std::set<std::uint64_t>{0, 2}));
}

TEST_F(TunerTest, TimeThatOthersWorkMeanwhileCounts) {
  StudyPlan plan = plan_of(0);
  plan.budget.seconds = 60;
  StudyLog log = open(plan);
  StudyLog other = open(plan);
  other.join();
  FakeClock clock;
  int looks = 0;
  TunerOptions options;
  options.clock = &clock;
  options.stop_requested = [&] {
    clock.advance(std::chrono::seconds(2));
    if (++looks == 5) other.beat(std::chrono::seconds(40));
    return looks > 100;
  };
  Tuner tuner(log, trials_, nobody_, options);
  const TunerResult result = tuner.run();
  EXPECT_FALSE(result.interrupted);
  EXPECT_THAT(result.reason, HasSubstr("60 s"));
  EXPECT_LT(looks, 20);  // of 2 s each, and 40 s of the other one
}

TEST_F(TunerTest, AHalvingStudyPausesAndPromotesAndComputesNoEpochTwice) {
  StudyLog log = open(plan_of(9, "asha", 9));
  tune(log, 2);
  std::uint64_t epochs = 0;
  std::uint64_t finished = 0;
  for (const Trial& trial : log.history().trials()) {
    EXPECT_TRUE(ended(trial.state) || trial.state == State::kPaused) << trial.number;
    finished += trial.state == State::kFinished ? 1 : 0;
    for (const auto& [epoch, times] : trials_.computed[trial.number]) {
      EXPECT_EQ(times, 1) << "trial " << trial.number << " epoch " << epoch;
      ++epochs;
    }
  }
  EXPECT_GE(finished, 1U);
  EXPECT_LT(epochs, 81U);
}

TEST_F(TunerTest, NobodyIsToldTwiceThatATrialWasStopped) {
  class Counts final : public TunerObserver {
   public:
    void rested(const Trial& trial) override { ++times[{trial.number, trial.state}]; }
    std::map<std::pair<std::uint64_t, State>, int> times;
  };
  StudyLog log = open(plan_of(9, "asha", 9));
  Counts counts;
  trials_.epochs = log.plan().max_resource;
  Tuner(log, trials_, counts, {}).run();
  int stopped = 0;
  for (const auto& [what, times] : counts.times) {
    if (what.second != State::kStopped) continue;
    ++stopped;
    EXPECT_EQ(times, 1) << "trial " << what.first;
  }
  EXPECT_GE(stopped, 1);
}

TEST_F(TunerTest, ABudgetOfEpochsBeginsNothingBeyondIt) {
  StudyPlan plan = plan_of(0, "none", 5);
  plan.budget.epochs = 20;
  StudyLog log = open(plan);
  const TunerResult result = tune(log, 1);
  EXPECT_THAT(result.reason, HasSubstr("20 epochs"));
  EXPECT_EQ(log.history().size(), 4U);
}

TEST_F(TunerTest, ProposalsDoNotDependOnWhereTheTunerWasStopped) {
  StudyPlan plan = plan_of(20);
  plan.searcher = searcher_named("tpe");
  std::vector<Assignment> straight;
  {
    StudyLog log(control::make_sqlite_store(folder_ / "straight.db"), plan);
    tune(log, 1);
    for (const Trial& trial : log.history().trials())
      straight.push_back(trial.values);
  }
  for (int stop_after = 1; stop_after < 40; stop_after += 3) {
    StudyLog log = open(plan);
    int looks = 0;
    tune(log, 1, [&] { return ++looks > stop_after; });
  }
  StudyLog log = open(plan);
  tune(log, 1);
  std::vector<Assignment> stopped;
  for (const Trial& trial : log.history().trials())
    stopped.push_back(trial.values);
  EXPECT_EQ(stopped, straight);
}

// Somebody else has the file for longer than one wait: the study goes on when it is free again.
TEST_F(TunerTest, AStoreThatIsHeldIsWaitedFor) {
  class Watcher final : public TunerObserver {
   public:
    void waits(const std::string& reason) override {
      reasons.push_back(reason);
      let_go();
    }
    std::vector<std::string> reasons;
    std::function<void()> let_go;
  } watcher;
  StudyLog log(control::make_sqlite_store(folder_ / "study.db", {.timeout = std::chrono::milliseconds(50)}),
               plan_of(5));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ / "study.db").c_str(), &other), SQLITE_OK);
  const auto run = [&](const char* sql) { ASSERT_EQ(sqlite3_exec(other, sql, nullptr, nullptr, nullptr), SQLITE_OK); };
  trials_.fates = [&, held = false](const Trial& trial, int) mutable {
    if (trial.number == 1 && !std::exchange(held, true)) run("BEGIN EXCLUSIVE");
    return PlayedTrials::Fate::kGood;
  };
  watcher.let_go = [&] { run("COMMIT"); };
  Tuner tuner(log, trials_, watcher, {.slots = 1});
  tuner.run();
  sqlite3_close(other);
  EXPECT_EQ(watcher.reasons.size(), 1U);
  EXPECT_EQ(log.history().ended().size(), 5U);
  for (const auto& [number, starts] : trials_.starts)
    EXPECT_EQ(starts, 1) << number;
}

}  // namespace
}  // namespace muster::tuning
