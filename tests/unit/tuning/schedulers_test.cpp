// Schedulers, played against trials whose curves are known: how many come how far, who is promoted, stopped and copied,
// compared with the papers' own figures; and that every decision is a function of the history alone.
#include "muster/tuning/scheduler.h"

#include <cmath>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/tuning/registry.h"
#include "muster/tuning/schedulers/asha.h"
#include "muster/tuning/schedulers/halving.h"
#include "muster/tuning/schedulers/hyperband.h"
#include "muster/tuning/schedulers/median.h"
#include "muster/tuning/schedulers/none.h"
#include "muster/tuning/schedulers/population.h"

namespace muster::tuning {
namespace {

Space space() {
  return Space({Parameter::uniform("q", 0, 1)});
}

// The loss of trial `number` at a resource. Trial values come from a fixed order that is neither sorted nor regular.
double quality(std::uint64_t number) {
  return static_cast<double>(number * 7919 % 101) / 101.0;
}

// Does what the one who acts does, with `slots` trials at a time that take turns, one resource each.
class Acting {
 public:
  using Curve = std::function<double(const Trial&, std::uint64_t resource)>;

  Acting(const SchedulerChoice& choice, ScheduleProblem problem, std::size_t slots, Curve curve)
      : choice_(choice), problem_(problem), slots_(slots), curve_(std::move(curve)) {
    problem_.space = space();
  }

  void run() {
    for (int turn = 0; turn < 100000; ++turn) {
      while (running_.size() < slots_ && begin()) {
      }
      if (running_.empty()) return;
      const std::uint64_t number = running_[static_cast<std::size_t>(turn) % running_.size()];
      const Trial& trial = history.at(number);
      const std::uint64_t resource = trial.resource() + 1;
      history.report(number, {.resource = resource, .values = {curve_(trial, resource)}});
      ++resources;
      // A scheduler that is made now must say the same as any other: there is nothing to keep.
      const Decision decision = choice_.make(problem_)->after_report(history, number);
      EXPECT_FALSE(decision.reason.empty());
      if (resource == problem_.max_resource) {
        history.finish(number, history.at(number).reports.back().values);
      } else {
        act(number, decision);
      }
      if (history.at(number).state != State::kRunning) std::erase(running_, number);
    }
    FAIL() << "does not end";
  }

  std::map<std::uint64_t, int> lengths() const {
    std::map<std::uint64_t, int> counts;
    for (const Trial& trial : history.trials())
      ++counts[trial.resource()];
    return counts;
  }

  History history;
  std::uint64_t resources = 0;
  std::uint64_t copies = 0;

 private:
  bool begin() {
    for (;;) {
      const Next next = choice_.make(problem_)->next(history);
      if (next.turn == Turn::kWait || next.turn == Turn::kDone) {
        if (next.turn == Turn::kDone) {
          EXPECT_TRUE(running_.empty());
        }
        return false;
      }
      if (next.turn == Turn::kEnd) {
        history.stop(next.number, next.reason);
        continue;
      }
      std::uint64_t number = next.number;
      if (next.turn == Turn::kNew) {
        number = history.size();
        history.add({.number = number, .values = {{"q", quality(number)}}, .group = next.group});
      }
      history.run(number);
      running_.push_back(number);
      return true;
    }
  }

  void act(std::uint64_t number, const Decision& decision) {
    const std::uint64_t expected = choice_.make(problem_)->next_decision(history.at(number));
    EXPECT_GT(expected, history.at(number).resource());
    if (decision.action == Action::kPause) history.pause(number, decision.reason);
    if (decision.action == Action::kStop) history.stop(number, decision.reason);
    if (decision.action == Action::kExploit) {
      ++copies;
      history.stop(number, decision.reason);
      history.add({.number = history.size(),
                   .values = decision.exploit->values,
                   .lineage = decision.exploit->from,
                   .group = history.at(number).group});
    }
  }

  SchedulerChoice choice_;
  ScheduleProblem problem_;
  std::size_t slots_;
  Curve curve_;
  std::vector<std::uint64_t> running_;
};

double constant(const Trial& trial, std::uint64_t) {
  return quality(trial.number);
}

TEST(SchedulersTest, NoneRunsAllToTheEnd) {
  Acting acting(NoStopping{}, {.max_resource = 5, .trials = 7}, 2, constant);
  acting.run();
  EXPECT_EQ(acting.lengths(), (std::map<std::uint64_t, int>{{5, 7}}));
}

// 27 trials, eta 3: 27 come to 1, 9 to 3, 3 to 9, 1 to 27; with any number of slots, and those are the best ones.
TEST(SchedulersTest, HalvingKeepsTheBestThirdOfEachRung) {
  for (const std::size_t slots : {1u, 2u, 5u, 40u}) {
    Acting acting(SuccessiveHalving{}, {.max_resource = 27, .trials = 27}, slots, constant);
    acting.run();
    EXPECT_EQ(acting.lengths(), (std::map<std::uint64_t, int>{{1, 18}, {3, 6}, {9, 2}, {27, 1}})) << slots;
    std::vector<std::pair<double, std::uint64_t>> order;
    for (std::uint64_t i = 0; i < 27; ++i)
      order.emplace_back(quality(i), i);
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < 9; ++i)
      EXPECT_GE(acting.history.at(order[i].second).resource(), i == 0 ? 27u : i < 3 ? 9u : 3u);
  }
}

TEST(SchedulersTest, HalvingRoundsFollowEachOther) {
  Acting acting(SuccessiveHalving{.width = 9}, {.max_resource = 9, .trials = 20}, 2, constant);
  acting.run();
  // Rounds of 9, 9 and the 2 that are left, of which one goes on to each rung.
  EXPECT_EQ(acting.lengths(), (std::map<std::uint64_t, int>{{1, 6 + 6 + 1}, {3, 2 + 2}, {9, 1 + 1 + 1}}));
}

TEST(SchedulersTest, AFailedTrialDoesNotHoldUpItsRung) {
  const SchedulerChoice choice = SuccessiveHalving{};
  const ScheduleProblem problem{.space = space(), .max_resource = 9, .trials = 3};
  History history;
  for (std::uint64_t i = 0; i < 3; ++i) {
    history.add({.number = i});
    history.run(i);
  }
  for (std::uint64_t i = 0; i < 2; ++i) {
    history.report(i, {.resource = 1, .values = {static_cast<double>(i)}});
    EXPECT_EQ(choice.make(problem)->after_report(history, i).action, Action::kPause);
    history.pause(i, "");
  }
  EXPECT_EQ(choice.make(problem)->next(history).turn, Turn::kWait);
  history.fail(2, "died");
  const Next next = choice.make(problem)->next(history);
  EXPECT_EQ(next.turn, Turn::kRun);
  EXPECT_EQ(next.number, 0u);
}

// Table 1 of Li et al. for R = 81, eta = 3: brackets begin with 81, 34, 15, 8 and 5 trials.
TEST(SchedulersTest, HyperbandHasTheBracketsOfThePaper) {
  Acting acting(Hyperband{}, {.max_resource = 81, .trials = 81 + 34 + 15 + 8 + 5}, 4, constant);
  acting.run();
  std::map<std::uint64_t, std::map<std::uint64_t, int>> lengths;
  for (const Trial& trial : acting.history.trials())
    ++lengths[trial.group][trial.resource()];
  EXPECT_EQ(lengths[0], (std::map<std::uint64_t, int>{{1, 54}, {3, 18}, {9, 6}, {27, 2}, {81, 1}}));
  EXPECT_EQ(lengths[1], (std::map<std::uint64_t, int>{{3, 23}, {9, 8}, {27, 2}, {81, 1}}));
  EXPECT_EQ(lengths[2], (std::map<std::uint64_t, int>{{9, 10}, {27, 4}, {81, 1}}));
  EXPECT_EQ(lengths[3], (std::map<std::uint64_t, int>{{27, 6}, {81, 2}}));
  EXPECT_EQ(lengths[4], (std::map<std::uint64_t, int>{{81, 5}}));
}

TEST(SchedulersTest, AshaNeverWaitsAndFindsTheBest) {
  for (const bool resume : {true, false}) {
    Acting acting(Asha{.resume = resume}, {.max_resource = 27, .trials = 81}, 4, constant);
    acting.run();
    const std::uint64_t best = *best_trial(acting.history, 0, Goal::kMinimise);
    for (std::uint64_t i = 0; i < 81; ++i)
      EXPECT_LE(quality(best), quality(i));
    EXPECT_LT(acting.resources, 81u * 27 / 4) << resume;  // a quarter of what all of it would take
    for (const Trial& trial : acting.history.trials())
      EXPECT_TRUE(ended(trial.state));
    if (resume) {
      EXPECT_EQ(acting.history.at(best).resource(), 27u);
    }
  }
}

// At the end no more than a third of a rung has gone beyond it, and with resume those are the best.
TEST(SchedulersTest, AshaPromotesAtMostAThird) {
  Acting acting(Asha{}, {.max_resource = 9, .trials = 60}, 3, constant);
  acting.run();
  std::vector<double> beyond, stayed;
  for (const Trial& trial : acting.history.trials())
    (trial.resource() > 1 ? beyond : stayed).push_back(quality(trial.number));
  EXPECT_GE(beyond.size(), 20u);
  EXPECT_LE(beyond.size(), 26u);  // a few were promoted early, when they were among the best so far
  std::sort(beyond.begin(), beyond.end());
  std::sort(stayed.begin(), stayed.end());
  EXPECT_LT(beyond[19], stayed[0] + 1e-12);
}

// Two of a rung are too few for a best third; still one comes to the end, the better one.
TEST(SchedulersTest, AshaBringsSomebodyToTheEnd) {
  Acting acting(Asha{}, {.max_resource = 27, .trials = 2}, 2, constant);
  acting.run();
  const std::uint64_t better = quality(0) < quality(1) ? 0 : 1;
  EXPECT_EQ(acting.history.at(better).state, State::kFinished);
  EXPECT_EQ(acting.history.at(1 - better).resource(), 1u);
}

TEST(SchedulersTest, AWaitingTrialGoesFirst) {
  for (const SchedulerChoice& choice : all_schedulers()) {
    History history;
    history.add({.number = 0});
    history.run(0);
    history.report(0, {.resource = 1, .values = {0.5}});
    history.lose(0, 1);
    const Next next = choice.make({.space = space(), .max_resource = 9})->next(history);
    if (choice.name() == "population") continue;  // there members that have not begun are further behind
    EXPECT_EQ(next.turn, Turn::kRun) << choice.name();
    EXPECT_EQ(next.number, 0u) << choice.name();
  }
}

// Five others with averages 1, 2, 3, 4, 5 up to resource 2: who never was at 3 or better stops; maximising, the other
// way.
TEST(SchedulersTest, MedianStopsWhoIsWorseThanTheMedianOfTheAverages) {
  for (const Goal goal : {Goal::kMinimise, Goal::kMaximise}) {
    for (const double best : {2.9, 3.0, 3.1}) {
      History history;
      for (std::uint64_t i = 0; i < 6; ++i)
        history.add({.number = i});
      for (std::uint64_t i = 0; i < 5; ++i) {
        history.report(i, {.resource = 1, .values = {static_cast<double>(i)}});
        history.report(i, {.resource = 2, .values = {static_cast<double>(i) + 2}});
        history.report(i, {.resource = 3, .values = {100.0}});
      }
      const double worse = goal == Goal::kMinimise ? 50.0 : -50.0;
      history.report(5, {.resource = 1, .values = {best}});
      history.report(5, {.resource = 2, .values = {worse}});
      const auto scheduler = MedianStopping{}.make({.goals = {goal}, .max_resource = 9});
      const bool stops = goal == Goal::kMinimise ? best > 3.0 : best < 3.0;
      EXPECT_EQ(scheduler->after_report(history, 5).action, stops ? Action::kStop : Action::kContinue) << best;
      EXPECT_EQ(MedianStopping{.startup = 6}.make({.max_resource = 9})->after_report(history, 5).action,
                Action::kContinue);
    }
  }
}

// The loss falls by what the value of q is worth each step, from where the weights were copied: members that copy win.
double improving(const Trial& trial, std::uint64_t resource, const std::map<std::uint64_t, double>& start) {
  const double q = std::get<double>(*trial.values.find("q"));
  const std::uint64_t from = trial.lineage ? trial.lineage->resource : 0;
  return start.at(trial.number) - (1.0 - std::abs(q - 0.9)) * static_cast<double>(resource - from);
}

TEST(SchedulersTest, ThePopulationCopiesTheBestAndKeepsTheLineage) {
  for (const std::size_t slots : {1u, 3u, 8u}) {
    std::map<std::uint64_t, double> start;
    Acting* self = nullptr;
    Acting acting(PopulationBased{.population = 8, .interval = 2}, {.seed = 4, .max_resource = 20}, slots,
                  [&](const Trial& trial, std::uint64_t resource) {
                    if (!start.contains(trial.number))
                      start[trial.number] =
                          trial.lineage
                              ? self->history.at(trial.lineage->parent).report_at(trial.lineage->resource)->values[0]
                              : 0.0;
                    return improving(trial, resource, start);
                  });
    self = &acting;
    acting.run();
    EXPECT_GT(acting.copies, 5u);
    int finished = 0;
    for (const Trial& trial : acting.history.trials()) {
      finished += trial.state == State::kFinished;
      space().check(trial.values);
      if (!trial.lineage) continue;
      const Trial& parent = acting.history.at(trial.lineage->parent);
      EXPECT_NE(parent.group, trial.group);
      ASSERT_NE(parent.report_at(trial.lineage->resource), nullptr);
      EXPECT_EQ(parent.report_at(trial.lineage->resource)->resource, trial.lineage->resource);
      EXPECT_EQ(trial.lineage->resource % 2, 0u);
    }
    EXPECT_EQ(finished, 8);
    // Without copies the best member would have come to 20 times its own gain.
    double alone = 0.0;
    for (std::uint64_t i = 0; i < 8; ++i)
      alone = std::min(alone, -20 * (1.0 - std::abs(quality(i) - 0.9)));
    const std::uint64_t best = *best_trial(acting.history, 0, Goal::kMinimise);
    EXPECT_LE((*acting.history.at(best).outcome())[0], alone + 1.0) << slots;
  }
}

TEST(SchedulersTest, ImpossibleOptionsAreRefusedAtTheStart) {
  EXPECT_THROW(Asha{.least = 9}.make({.max_resource = 9}), Error);
  EXPECT_THROW(Hyperband{.least = 10}.make({.max_resource = 9}), Error);
  EXPECT_THROW(SuccessiveHalving{.least = 9}.make({.max_resource = 9}), Error);
  EXPECT_THROW(PopulationBased{.interval = 9}.make({.max_resource = 9}), Error);
}

}  // namespace
}  // namespace muster::tuning
