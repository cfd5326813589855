// What holds of every searcher: proposals are in the space, are a function of problem, options, history and number
// alone, and (of those that learn) get better than chance. And what holds of single ones.
#include "muster/tuning/searcher.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/tuning/pareto.h"
#include "muster/tuning/quasi_random.h"
#include "muster/tuning/registry.h"
#include "muster/tuning/searchers/bohb.h"
#include "muster/tuning/searchers/cma_es.h"
#include "muster/tuning/searchers/evolution.h"
#include "muster/tuning/searchers/gp.h"
#include "muster/tuning/searchers/random.h"
#include "muster/tuning/searchers/tpe.h"

namespace muster::tuning {
namespace {

Space mixed_space() {
  return Space({Parameter::log_uniform("lr", 1e-5, 1.0), Parameter::choice("name", {"sgd", "adam", "lamb"}),
                Parameter::integer("layers", 1, 9), Parameter::uniform("momentum", 0, 1).only_when("name", {"sgd"})});
}

double mixed_value(const Assignment& values) {
  const double rate = std::log10(std::get<double>(*values.find("lr"))) + 3;
  const auto layers = static_cast<double>(std::get<std::int64_t>(*values.find("layers"))) - 4;
  const Value* const momentum = values.find("momentum");
  const double rest = momentum == nullptr ? 0.5 : std::abs(std::get<double>(*momentum) - 0.9);
  return rate * rate + 0.1 * layers * layers + rest;
}

// Trials finish out of order, some fail, some are stopped early, some still run.
struct Played {
  History history;
  std::vector<Assignment> proposals;
};

void play_on(Searcher& searcher, Played& played, std::uint64_t trials) {
  for (std::uint64_t number = played.history.size(); number < trials; ++number) {
    const Proposal proposal = searcher.ask(played.history, number);
    if (proposal.exhausted) return;
    played.proposals.push_back(proposal.values);
    played.history.add({.number = number, .values = proposal.values});
    played.history.run(number);
    if (number % 3 != 2) continue;
    for (const std::uint64_t which : {number, number - 2}) {
      const double value = mixed_value(played.history.at(which).values);
      played.history.report(which, {.resource = 1, .values = {value + 1}});
      if (which % 11 == 3) {
        played.history.fail(which, "died");
      } else if (which % 5 == 1) {
        played.history.stop(which, "slow");
      } else {
        played.history.finish(which, {which % 13 == 0 ? std::nan("") : value});
      }
    }
  }
}

class EverySearcher : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Searcher> make(std::uint64_t seed = 1, const Space& space = mixed_space()) const {
    return searcher_named(GetParam()).make({.space = space, .seed = seed});
  }
};

TEST_P(EverySearcher, ProposesWhatIsInTheSpace) {
  Played played;
  const auto searcher = make();
  play_on(*searcher, played, 60);
  ASSERT_FALSE(played.proposals.empty());
  for (const Assignment& values : played.proposals)
    EXPECT_NO_THROW(mixed_space().check(values)) << values.text();
}

// A searcher that has seen it all and one that is made now, after a resume, propose the same.
TEST_P(EverySearcher, ProposesTheSameAfterAResume) {
  Played whole;
  const auto first = make();
  play_on(*first, whole, 50);
  Played again;
  for (std::uint64_t until = 7; until <= 50; until += 7) {
    const auto other = make();  // a new one each time
    play_on(*other, again, std::min<std::uint64_t>(until, 50));
  }
  play_on(*make(), again, 50);
  EXPECT_EQ(whole.proposals, again.proposals);
}

// Shown another history in between, it answers as if it had not been.
TEST_P(EverySearcher, AnswersDoNotDependOnWhatWasAskedBefore) {
  Played one, other;
  const auto searcher = make();
  play_on(*searcher, one, 40);
  const auto stranger = make(2);
  play_on(*stranger, other, 45);
  const Proposal direct = make()->ask(other.history, 45);
  const Proposal after = searcher->ask(other.history, 45);
  EXPECT_EQ(direct.values, after.values);
  EXPECT_EQ(searcher->ask(one.history, 40).values, make()->ask(one.history, 40).values);
  EXPECT_EQ(searcher->ask(one.history, 40).values, searcher->ask(one.history, 40).values);
}

TEST_P(EverySearcher, TriesGivenPointsFirstAndRefusesBadOnes) {
  const Assignment point{{"lr", 0.5}, {"name", "adam"}, {"layers", std::int64_t{2}}};
  const auto searcher = searcher_named(GetParam()).make({.space = mixed_space(), .points = {point}});
  EXPECT_EQ(searcher->ask({}, 0).values, point);
  EXPECT_THROW(searcher_named(GetParam()).make({.space = mixed_space(), .points = {{{"lr", 0.5}}}}), Error);
}

TEST_P(EverySearcher, OneKeyWithOneValueIsASpaceToo) {
  const Space space({Parameter::uniform("a", 0.5, 0.5), Parameter::choice("b", {"x"}), Parameter::integer("c", 3, 3)});
  const auto searcher = make(1, space);
  History history;
  for (std::uint64_t number = 0; number < 30; ++number) {
    const Proposal proposal = searcher->ask(history, number);
    if (proposal.exhausted) break;
    EXPECT_EQ(proposal.values, (Assignment{{"a", 0.5}, {"b", "x"}, {"c", std::int64_t{3}}}));
    history.add({.number = number, .values = proposal.values});
    history.finish(number, {1.0});
  }
}

INSTANTIATE_TEST_SUITE_P(All, EverySearcher, testing::ValuesIn(searcher_names()),
                         [](const auto& named) { return named.param; });

double best_of(const SearcherChoice& choice, std::uint64_t trials, std::uint64_t seed, Goal goal = Goal::kMinimise) {
  const auto searcher = choice.make({.space = mixed_space(), .goals = {goal}, .seed = seed});
  History history;
  double best = 1e9;
  for (std::uint64_t number = 0; number < trials; ++number) {
    const Assignment values = searcher->ask(history, number).values;
    const double value = mixed_value(values);
    best = std::min(best, value);
    history.add({.number = number, .values = values});
    history.finish(number, {goal == Goal::kMinimise ? value : -value});
  }
  return best;
}

TEST(SearchersTest, WhatLearnsFindsMoreThanChanceWhicheverTheGoal) {
  for (const SearcherChoice& choice : {SearcherChoice(Tpe{}), SearcherChoice(Tpe{.multivariate = false}),
                                       SearcherChoice(CmaEs{}), SearcherChoice(GpSearch{})}) {
    double learned = 0.0, chance = 0.0;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      learned += best_of(choice, 100, seed, seed % 2 == 0 ? Goal::kMinimise : Goal::kMaximise) / 6;
      chance += best_of(RandomSearch{}, 100, seed) / 6;
    }
    EXPECT_LT(learned, 0.95 * chance) << choice.name();
  }
}

TEST(SearchersTest, ResultsOfAnEarlierStudyAreUsedAtOnce) {
  const Space space({Parameter::uniform("a", 0, 1), Parameter::uniform("b", 0, 1)});
  std::vector<Known> known;
  for (int i = 0; i < 40; ++i) {
    const double a = i / 40.0;
    const double b = (7 * i % 40) / 40.0;
    known.push_back({{{"a", a}, {"b", b}, {"gone", 1.0}}, {std::pow(a - 0.8, 2) + std::pow(b - 0.2, 2)}});
  }
  known.push_back({{{"a", 5.0}, {"b", 0.1}}, {-9.0}});  // outside of this space
  for (const SearcherChoice& choice : {SearcherChoice(Tpe{}), SearcherChoice(CmaEs{}), SearcherChoice(GpSearch{})}) {
    double distance = 0.0;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Proposal first = choice.make({.space = space, .seed = seed, .known = known})->ask({}, 0);
      distance +=
          std::hypot(std::get<double>(*first.values.find("a")) - 0.8, std::get<double>(*first.values.find("b")) - 0.2) /
          10;
    }
    EXPECT_LT(distance, 0.3) << choice.name();  // the mean distance of chance is over 0.55
  }
}

TEST(SearchersTest, TwoObjectivesSpreadAlongTheFront) {
  // x^2 and (x - 1)^2 + y: the front is y = 0, x in [0, 1].
  const Space space({Parameter::uniform("x", -2, 2), Parameter::uniform("y", 0, 2)});
  const std::vector<Goal> goals = {Goal::kMinimise, Goal::kMaximise};
  double area = 0.0, chance = 0.0;
  for (const SearcherChoice& choice : {SearcherChoice(Tpe{}), SearcherChoice(RandomSearch{})}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto searcher = choice.make({.space = space, .goals = goals, .seed = seed});
      History history;
      std::vector<std::vector<double>> losses;
      for (std::uint64_t number = 0; number < 80; ++number) {
        const Assignment values = searcher->ask(history, number).values;
        const double x = std::get<double>(*values.find("x"));
        const double second = (x - 1) * (x - 1) + std::get<double>(*values.find("y"));
        losses.push_back({x * x, second});
        history.add({.number = number, .values = values});
        history.finish(number, {x * x, -second});
      }
      (choice.name() == "tpe" ? area : chance) += hypervolume_2d(losses, {1.5, 1.5}) / 4;
      EXPECT_GE(pareto_front(history, goals).size(), 3u);
    }
  }
  EXPECT_GT(area, chance);
  EXPECT_THROW(CmaEs{}.make({.space = space, .goals = goals}), Error);
  EXPECT_THROW(GpSearch{}.make({.space = space, .goals = goals}), Error);
}

// Mostly equal results, huge ones and none that is finite: a model of them says little, and must not break.
TEST(SearchersTest, OddResultsDoNotBreakAModel) {
  const Space space({Parameter::uniform("a", 0, 1), Parameter::choice("b", {"x", "y"})});
  for (const char* const name : {"tpe", "gp", "cma_es"}) {
    for (const std::vector<double>& pattern :
         {std::vector<double>{0, 0, 0, 0, 1e10}, {1e308, -1e308, 0}, {INFINITY, NAN}, {1.0}, {5e-324, 0, 0}}) {
      const auto searcher = searcher_named(name).make({.space = space});
      History history;
      for (std::uint64_t number = 0; number < 40; ++number) {
        const Assignment values = searcher->ask(history, number).values;
        ASSERT_NO_THROW(space.check(values)) << name;
        history.add({.number = number, .values = values});
        history.finish(number, {pattern[number % pattern.size()]});
      }
    }
  }
}

// Learns from what short trials report; whole ones tell the opposite and are not there yet.
TEST(SearchersTest, BohbLearnsFromTheLargestResourceWithEnoughResults) {
  const Space space({Parameter::uniform("a", 0, 1)});
  const auto searcher = Bohb{.random = 0.0, .enough = 10}.make({.space = space, .seed = 3});
  History history;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const double a = static_cast<double>(i) / 40;
    history.add({.number = i, .values = {{"a", a}}});
    history.report(i, {.resource = 1, .values = {a}});
    if (i % 2 == 0) history.report(i, {.resource = 3, .values = {1 - a}});
    if (i == 5) history.report(i, {.resource = 9, .values = {0.0}});
  }
  const Proposal proposal = searcher->ask(history, 40);
  EXPECT_GT(std::get<double>(*proposal.values.find("a")), 0.7) << proposal.reason;
  EXPECT_NE(proposal.reason.find("at 3"), std::string::npos) << proposal.reason;
}

// On a sphere CMA-ES converges by orders of magnitude, on a turned ellipse too: that is what the covariance is for.
TEST(EvolutionTest, ConvergesOnATurnedEllipse) {
  Evolution evolution({0.8, 0.8, 0.8, 0.8}, 0.2, 8, {0, 0, 0, 0});
  const auto value = [](const std::vector<double>& x) {
    double sum = 0.0;
    for (std::size_t i = 0; i < 4; ++i) {
      double along = 0.0;  // a Hadamard matrix turns the axes
      for (std::size_t j = 0; j < 4; ++j)
        along += (__builtin_popcount(i & j) % 2 == 0 ? 0.5 : -0.5) * (x[j] - 0.4);
      sum += std::pow(10.0, static_cast<double>(i)) * along * along;
    }
    return sum;
  };
  const QuasiRandom sobol(4, 5);
  double best = 1e9;
  for (std::uint64_t batch = 0; batch < 120; ++batch) {
    RandomStream random({.seed = 5, .step = batch});
    std::vector<std::vector<double>> points;
    for (std::size_t i = 0; i < evolution.lambda(); ++i)
      points.push_back(evolution.sample(sobol.point(evolution.lambda() * batch + i), random));
    std::sort(points.begin(), points.end(), [&](const auto& a, const auto& b) { return value(a) < value(b); });
    best = std::min(best, value(points[0]));
    evolution.update(points);
  }
  EXPECT_LT(best, 1e-12);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(evolution.mean()[i], 0.4, 1e-5);
}

TEST(EvolutionTest, AFloorKeepsIntegersMoving) {
  Evolution evolution({0.5, 0.5}, 0.2, 6, {0.03, 0.0});
  const QuasiRandom sobol(2, 5);
  for (std::uint64_t batch = 0; batch < 60; ++batch) {
    RandomStream random({.seed = 6, .step = batch});
    std::vector<std::vector<double>> points;
    for (std::size_t i = 0; i < 6; ++i)
      points.push_back(evolution.sample(sobol.point(evolution.lambda() * batch + i), random));
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
      return std::hypot(a[0] - 0.5, a[1] - 0.5) < std::hypot(b[0] - 0.5, b[1] - 0.5);
    });
    evolution.update(points);
  }
  EXPECT_GE(evolution.deviation(0), 0.0299);
  EXPECT_LT(evolution.deviation(1), 1e-3);
}

TEST(RegistryTest, NamesAndKeysAreFound) {
  for (SearcherChoice& choice : all_searchers()) {
    Schema schema;
    choice.add_keys(schema.section("search", ""));
    EXPECT_FALSE(choice.help().empty());
  }
  for (SchedulerChoice& choice : all_schedulers()) {
    Schema schema;
    choice.add_keys(schema.section("schedule", ""));
    EXPECT_FALSE(choice.help().empty());
  }
  EXPECT_THAT([] { searcher_named("tpa"); }, testing::ThrowsMessage<Error>(testing::HasSubstr("tpe")));
  EXPECT_THAT([] { scheduler_named("ahsa"); }, testing::ThrowsMessage<Error>(testing::HasSubstr("asha")));
  // A key that is set reaches what is made.
  SearcherChoice choice = searcher_named("tpe");
  Schema schema;
  choice.add_keys(schema.section("search", ""));
  schema.set("search.startup=3");
  History history;
  for (std::uint64_t i = 0; i < 3; ++i) {
    history.add({.number = i, .values = mixed_space().from_units({0.1, 0.5, 0.2, 0.3})});
    history.finish(i, {1.0});
  }
  EXPECT_NE(choice.make({.space = mixed_space()})->ask(history, 3).reason.find("as likely"), std::string::npos);
}

}  // namespace
}  // namespace muster::tuning
