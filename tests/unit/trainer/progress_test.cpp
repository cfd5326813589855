// Through a file and back, bit by bit, with values that JSON has no number for.
#include "muster/trainer/progress.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::trainer {
namespace {

using ::testing::HasSubstr;

Progress progress_of_a_run() {
  Progress progress;
  progress.validated_epochs = 3;
  progress.best_loss = 0.1 + 0.2;  // no short decimal
  progress.best_score = 1.0 / 3;
  progress.best_step = 40;
  progress.epochs_without_improvement = 2;
  progress.skipped = {.total = 5, .in_a_row = 1};
  progress.change = 7;
  progress.loss_sum = 1e-300;
  progress.score_sum = 12;
  progress.samples = 64;
  return progress;
}

// As it goes through a file.
Progress round_trip(const Progress& progress) {
  return Progress::from_json(parse_json(progress.to_json().dump(), "here"), "here");
}

TEST(Progress, ComesBackBitByBit) {
  EXPECT_EQ(round_trip(progress_of_a_run()), progress_of_a_run());
}

TEST(Progress, ARunWithoutAValidationHasNoBest) {
  const Progress back = round_trip({});
  EXPECT_EQ(back, Progress());
  EXPECT_GT(back.best_loss, 1e308) << "any loss is better";
}

TEST(Progress, MeansOfNothingAreNoNumbers) {
  EXPECT_TRUE(std::isnan(Progress().mean_loss()));
  EXPECT_TRUE(std::isnan(Progress().mean_score()));
  EXPECT_EQ(progress_of_a_run().mean_score(), 12.0 / 64);
}

TEST(Progress, WhatIsMissingOrOfAnotherTypeIsNamed) {
  const Json whole = progress_of_a_run().to_json();
  for (const auto& [key, value] : whole.items()) {
    if (key == "change") continue;  // older checkpoints have none
    for (const bool missing : {true, false}) {
      Json json = whole;
      if (missing) {
        json.erase(key);
      } else {
        json[key] = "seven";
      }
      try {
        Progress::from_json(json, "manifest.json");
        ADD_FAILURE() << key;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kDamaged) << key;
        EXPECT_THAT(error.what(), HasSubstr(key));
        EXPECT_THAT(error.what(), HasSubstr("manifest.json"));
      }
    }
  }
  Json negative = whole;
  negative["skipped"] = -1;
  EXPECT_THROW(Progress::from_json(negative, "here"), Error);
  EXPECT_THROW(Progress::from_json(Json::array(), "here"), Error);
  EXPECT_THROW(Progress::from_json(Json(), "here"), Error);
}

TEST(Progress, CheckpointsOfBeforeThereWereChangesHaveNone) {
  Json json = progress_of_a_run().to_json();
  json.erase("change");
  EXPECT_EQ(Progress::from_json(json, "here").change, 0U);
}

}  // namespace
}  // namespace muster::trainer
