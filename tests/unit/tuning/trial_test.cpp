// The log of trials: states, outcomes, and digests that tell histories apart.
#include "muster/tuning/trial.h"

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace muster::tuning {
namespace {

TEST(HistoryTest, KeepsTheOrderOfEnds) {
  History history;
  for (std::uint64_t i = 0; i < 4; ++i)
    history.add({.number = i});
  history.finish(2, {0.5});
  history.fail(0, "died");
  history.report(3, {.resource = 1, .values = {0.1}});
  history.stop(3, "slow");
  EXPECT_EQ(history.ended(), (std::vector<std::uint64_t>{2, 0, 3}));
  EXPECT_EQ(history.at(0).outcome(), nullptr);
  EXPECT_EQ(*history.at(3).outcome(), std::vector<double>{0.1});
  EXPECT_EQ(best_trial(history, 0, Goal::kMinimise), 3u);
  EXPECT_EQ(best_trial(history, 0, Goal::kMaximise), 2u);
}

TEST(HistoryTest, ALostTrialForgetsWhatHasNoCheckpoint) {
  History history;
  history.add({.number = 0});
  history.run(0);
  for (std::uint64_t resource = 1; resource <= 5; ++resource)
    history.report(0, {.resource = resource, .values = {1.0}});
  history.lose(0, 3);
  EXPECT_EQ(history.at(0).resource(), 3u);
  EXPECT_EQ(history.at(0).state, State::kWaiting);
  EXPECT_EQ(history.at(0).report_at(9)->resource, 3u);
  history.lose(0, 0);
  EXPECT_EQ(history.at(0).report_at(9), nullptr);
}

TEST(HistoryTest, WhyATrialWasPausedIsOverWhenItGoesOn) {
  History history;
  history.add({.number = 0, .reason = "proposed"});
  history.run(0);
  EXPECT_EQ(history.at(0).reason, "proposed");
  history.report(0, {1, {0.5}});
  history.pause(0, "not among the best");
  history.run(0);
  history.finish(0, {0.25});
  EXPECT_EQ(history.at(0).reason, "");
}

TEST(HistoryTest, ALineageIsWhereATrialBegins) {
  History history;
  history.add({.number = 0});
  history.add({.number = 1, .lineage = Lineage{.parent = 0, .resource = 4}});
  EXPECT_EQ(history.at(1).resource(), 4u);
}

// Every call, its order and all that it says are in the digest.
// Each call taken back, in the reverse order, leads through the same states as there were on the way.
TEST(HistoryTest, WhatHappenedCanBeTakenBack) {
  History history;
  std::vector<History> states;
  std::vector<std::optional<Trial>> before;
  const auto happens = [&](std::uint64_t number, const std::function<void()>& call) {
    states.push_back(history);
    before.push_back(number < history.size() ? std::optional(history.at(number)) : std::nullopt);
    call();
  };
  happens(0, [&] { history.add({.number = 0, .values = {{"x", 1.0}}}); });
  happens(0, [&] { history.run(0); });
  happens(0, [&] { history.report(0, {1, {3.0}}); });
  happens(1, [&] { history.add({.number = 1, .values = {{"x", 2.0}}, .lineage = Lineage{0, 1}}); });
  happens(0, [&] { history.pause(0, "why"); });
  happens(1, [&] { history.run(1); });
  happens(0, [&] { history.run(0); });
  happens(0, [&] { history.report(0, {2, {2.5}}); });
  happens(0, [&] { history.lose(0, 1); });
  happens(1, [&] { history.stop(1, "enough"); });
  happens(0, [&] { history.run(0); });
  happens(0, [&] { history.finish(0, {2.0}); });
  for (; !states.empty(); states.pop_back(), before.pop_back()) {
    history.take_back(before.back());
    EXPECT_EQ(history.trials(), states.back().trials());
    EXPECT_EQ(history.ended(), states.back().ended());
    EXPECT_EQ(history.waiting(), states.back().waiting());
    EXPECT_EQ(history.running(), states.back().running());
    EXPECT_EQ(history.originals(), states.back().originals());
    ASSERT_EQ(history.events(), states.back().events());
    EXPECT_EQ(history.digest(history.events()), states.back().digest(states.back().events()));
  }
}

TEST(HistoryTest, DigestsTellHistoriesApart) {
  const auto digest = [](const Assignment& values, double result, bool swapped) {
    History history;
    history.add({.number = 0, .values = values});
    history.add({.number = 1});
    history.finish(swapped ? 1 : 0, {result});
    history.finish(swapped ? 0 : 1, {result});
    EXPECT_EQ(history.events(), 4u);
    return history.digest(4);
  };
  const std::uint64_t one = digest({{"a", 1.0}}, 0.5, false);
  EXPECT_EQ(one, digest({{"a", 1.0}}, 0.5, false));
  EXPECT_NE(one, digest({{"a", 1.0}}, 0.5, true));
  EXPECT_NE(one, digest({{"a", 1.0}}, std::nextafter(0.5, 1.0), false));
  EXPECT_NE(one, digest({{"a", std::int64_t{1}}}, 0.5, false));
  EXPECT_NE(one, digest({{"b", 1.0}}, 0.5, false));
}

}  // namespace
}  // namespace muster::tuning
