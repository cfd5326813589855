// Times are given, none is measured: what counts as the cost of a checkpoint, and when the next is due.
#include "muster/trainer/checkpoint_pace.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr double kDay = 24 * 3600;

void steps(CheckpointPace& pace, int count, double seconds, bool writing = false) {
  for (int i = 0; i < count; ++i)
    pace.step_done(seconds, writing);
}

TEST(CheckpointPace, AsksForTheFirstAfterTwoSecondsOfTraining) {
  CheckpointPace pace;
  steps(pace, 19, 0.1);
  EXPECT_FALSE(pace.due());
  steps(pace, 2, 0.1);
  EXPECT_TRUE(pace.due());
}

TEST(CheckpointPace, CostIsTheStandstillAndTheSlowerSteps) {
  CheckpointPace pace;
  steps(pace, 110, 0.1);
  pace.saved(0.03);
  EXPECT_FALSE(pace.due());
  steps(pace, 3, 0.12, true);
  pace.step_done(0.11, false);  // 0.03 + 3 * 0.02 + 0.01 = 0.1
  const double trained = 11 + 3 * 0.12 + 0.11;
  EXPECT_NEAR(pace.decision().seconds, std::sqrt(2 * 0.1 * (kDay + trained)), 1e-6);
}

TEST(CheckpointPace, SeveralCheckpointsAreAveragedAndFastStepsAreNoGain) {
  CheckpointPace pace;
  steps(pace, 10, 1);
  pace.saved(0.2);
  pace.step_done(1, false);
  pace.saved(0.1);
  pace.step_done(0.5, false);  // half a second faster: by chance
  EXPECT_NEAR(pace.decision().seconds, std::sqrt(2 * 0.15 * (kDay + 11.5)), 1e-6);
}

TEST(CheckpointPace, IsNotDueWhileOneIsBeingWritten) {
  CheckpointPace pace;
  steps(pace, 101, 0.1);
  pace.saved(0);
  steps(pace, 100000, 0.1, true);
  EXPECT_FALSE(pace.due());
  steps(pace, 1, 0.1);
  EXPECT_TRUE(pace.due());
}

TEST(CheckpointPace, AnyCheckpointStartsTheIntervalAnew) {
  CheckpointPace pace;
  steps(pace, 15, 0.1);
  pace.saved(0.001);  // the best of an epoch, say
  steps(pace, 9, 0.1);
  EXPECT_FALSE(pace.due());
}

TEST(CheckpointPace, FailuresBringCheckpointsCloserTogether) {
  CheckpointPace pace;
  steps(pace, 101, 0.1);
  pace.saved(0.02);
  steps(pace, 1, 0.1);
  const double before = pace.decision().seconds;
  pace.failed();
  pace.failed();
  pace.failed();
  EXPECT_NEAR(pace.decision().seconds, before / 2, 1e-9);
}

TEST(CheckpointPace, TellsADecisionOnceAndAgainWhenItHasChanged) {
  CheckpointPace pace;
  EXPECT_THAT(pace.news(), Optional(HasSubstr("not known yet")));
  EXPECT_EQ(pace.news(), std::nullopt);
  steps(pace, 101, 0.1);
  pace.saved(0.02);
  steps(pace, 1, 0.1);
  EXPECT_THAT(pace.news(), Optional(HasSubstr("one costs 20 ms; 0 failures")));
  steps(pace, 100, 0.1);
  pace.saved(0.021);
  steps(pace, 1, 0.1);
  EXPECT_EQ(pace.news(), std::nullopt) << "a few percent are no news";
  pace.failed();
  EXPECT_THAT(pace.news(), Optional(HasSubstr("1 failures")));
}

TEST(CheckpointPace, AnotherLifeOfTheRunKnowsTimeAndFailures) {
  CheckpointPace before;
  steps(before, 101, 0.1);
  before.failed();
  CheckpointPace after;
  after.take(Json::parse(before.to_json().dump()), "manifest.json");
  EXPECT_EQ(after.to_json(), before.to_json());
  EXPECT_FALSE(after.due()) << "its own interval has only begun";
  EXPECT_THROW(after.take(Json::object(), "manifest.json"), Error);
}

}  // namespace
}  // namespace muster::trainer
