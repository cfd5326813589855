// Rows and events for steps that come together and for steps that come late.
#include "muster/trainer/run_report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "support/sandbox.h"

#include "muster/base/json.h"

namespace muster::trainer {
namespace {

using muster::testing::TemporaryFolder;

class Watcher : public TrainingObserver {
 public:
  void step_committed(const Step& step) override { steps.push_back(step); }
  void validated(const Validation&) override { ++validations; }
  std::vector<Step> steps;
  int validations = 0;
};

class ARunReport : public ::testing::Test {
 protected:
  std::vector<Json> rows() const {
    std::vector<Json> rows;
    std::ifstream file(folder_ / "metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      rows.push_back(Json::parse(line));
    return rows;
  }
  void open() { report_.open(folder_ / "metrics.jsonl", {}); }
  // Step `number` of the first epoch, counted from 0.
  void step(std::uint64_t number, const strategies::StepOutcome& outcome) {
    report_.step({0, number * kBatch, number}, 0.1, 2, outcome, progress_, watcher_);
  }
  static strategies::StepOutcome outcome_of(std::uint64_t samples, double loss, bool synchronized) {
    strategies::StepOutcome outcome;
    outcome.samples = samples;
    outcome.loss = loss;
    outcome.score = static_cast<double>(samples) / 2;
    outcome.gradient_norm = samples > 0 ? loss : 0;
    outcome.synchronized = synchronized;
    return outcome;
  }

  static constexpr std::uint64_t kBatch = 10;
  const TemporaryFolder folder_;
  RunReport report_{"accuracy", {2500, kBatch, 1}};  // 250 steps: a row for every third
  Progress progress_;
  Watcher watcher_;
};

TEST_F(ARunReport, WritesNothingBeforeItIsOpened) {
  step(2, outcome_of(10, 1, true));
  EXPECT_FALSE(report_.opened());
  EXPECT_TRUE(rows().empty());
  EXPECT_EQ(watcher_.steps.size(), 1U) << "who watches is told";
}

TEST_F(ARunReport, OfStepsInStepARowTellsOfItsOwn) {
  open();
  for (std::uint64_t number = 0; number < 250; ++number)
    step(number, outcome_of(10, static_cast<double>(number), true));
  const std::vector<Json> written = rows();
  ASSERT_EQ(written.size(), 84U) << "83 thirds, and the last step";
  EXPECT_EQ(written[1], (Json{{"event", "step"},
                              {"epoch", 0},
                              {"step", 6},
                              {"loss", 5.0},
                              {"accuracy", 0.5},
                              {"lr", 0.1},
                              {"gradient_norm", 5.0},
                              {"samples", 10},
                              {"samples_per_s", 5.0},
                              {"skipped", 0}}));
  EXPECT_EQ(written.back().at("step"), 250);
  ASSERT_EQ(watcher_.steps.size(), 250U);
  EXPECT_EQ(watcher_.steps[5].step, 6U);
  EXPECT_EQ(watcher_.steps[5].step_in_epoch, 6U);
}

// Three workers' lanes are heard of in one step, and nobody's in the next.
TEST_F(ARunReport, OfStepsOutOfStepARowTellsOfAllSinceTheOneBefore) {
  open();
  step(0, outcome_of(30, 1, false));
  step(1, outcome_of(0, 0, false));
  step(2, outcome_of(10, 5, false));
  step(3, outcome_of(0, 0, false));
  step(4, outcome_of(0, 0, false));
  step(5, outcome_of(0, 0, false));
  step(6, outcome_of(10, 7, false));
  step(8, outcome_of(0, 0, false));
  const std::vector<Json> written = rows();
  ASSERT_EQ(written.size(), 2U) << "none where nothing was heard";
  EXPECT_EQ(written[0].at("samples"), 40);
  EXPECT_DOUBLE_EQ(written[0].at("loss"), (30 * 1 + 10 * 5) / 40.0);
  EXPECT_DOUBLE_EQ(written[0].at("accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(written[0].at("samples_per_s"), 40 / 6.0);
  EXPECT_EQ(written[1].at("step"), 9);
  EXPECT_EQ(written[1].at("samples"), 10);
  EXPECT_EQ(written[1].at("gradient_norm"), 7);
}

TEST_F(ARunReport, AStepThatWasSkippedHasARow) {
  open();
  strategies::StepOutcome outcome = outcome_of(10, 1, true);
  outcome.applied = false;
  progress_.skipped.total = 1;
  step(0, outcome);
  ASSERT_EQ(rows().size(), 1U);
  EXPECT_EQ(rows()[0].at("skipped"), 1);
}

TEST_F(ARunReport, ValidationsAndTheEndHaveTheirFigures) {
  open();
  TrainingObserver::Validation event;
  event.set = "test";
  event.epoch = 1;
  event.step = 250;
  event.train_loss = 0.5;
  event.train_score = 0.75;
  event.result.loss = 0.25;
  event.result.metrics = {{"accuracy", 0.875}};
  event.best = true;
  report_.validation(event, watcher_);
  TrainingResult result;
  result.end = TrainingResult::End::kEarly;
  result.steps = 250;
  result.test = event.result;
  result.weights_hash = "abc";
  report_.finished(result, 3);
  EXPECT_EQ(watcher_.validations, 1);
  const std::vector<Json> written = rows();
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(written[0], (Json{{"event", "validation"},
                              {"set", "test"},
                              {"epoch", 1},
                              {"step", 250},
                              {"train_loss", 0.5},
                              {"train_accuracy", 0.75},
                              {"loss", 0.25},
                              {"best", true},
                              {"accuracy", 0.875}}));
  EXPECT_EQ(written[1].at("early"), true);
  EXPECT_EQ(written[1].at("test_accuracy"), 0.875);
  EXPECT_EQ(written[1].at("bad_samples"), 3);
}

}  // namespace
}  // namespace muster::trainer
