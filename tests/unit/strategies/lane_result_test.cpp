// What lanes tell, folded into what the step tells: nothing of it may be lost on the way, whatever is added to it
// later. Each structure is taken apart by its number of members, so a new one has to be named here before this
// compiles.
#include "muster/strategies/lane_result.h"

#include <vector>

#include <gtest/gtest.h>

#include "muster/strategies/step_outcome.h"

namespace muster::strategies {
namespace {

LaneResult lane(double loss, double score, double figure, const Wishes& wishes = {}) {
  LaneResult result{{.loss_sum = loss, .score = score}, wishes};
  result.report.figures.add("kl", figure, 2);
  return result;
}

TEST(FoldReports, EveryFigureAndEveryWishOfEachLaneCounts) {
  // Each wish is another lane's, so that none of them is seen only because it is the last one's, or the first one's.
  const std::vector<LaneResult> told{lane(1, 10, 0.5, {.stop = true}), lane(2, 20, 1.5, {.change = 7}),
                                     lane(4, 40, 4.0, {.save = true}), lane(8, 80, 0, {.change = 3})};
  const LaneResult total = fold_reports(told);
  const auto& [report, wishes] = total;
  const auto& [loss_sum, score, figures] = report;
  EXPECT_EQ(loss_sum, 15);
  EXPECT_EQ(score, 150);
  EXPECT_EQ(figures.mean("kl"), 1.5) << "a mean over the samples of all four";
  const auto& [stop, change, save] = wishes;
  EXPECT_TRUE(stop);
  EXPECT_EQ(change, 7U) << "the highest";
  EXPECT_TRUE(save);
}

TEST(FoldReports, OfNoLanesThereIsNothing) {
  const LaneResult total = fold_reports(std::vector<LaneResult>());
  EXPECT_EQ(total.report.loss_sum, 0);
  EXPECT_EQ(total.wishes, Wishes());
  EXPECT_TRUE(total.report.figures.entries().empty());
}

TEST(FoldReports, PartsThatWereFoldedBeforeGiveTheSame) {
  const std::vector<LaneResult> told{lane(1, 10, 0.5, {.stop = true}), lane(2, 20, 1.5, {.change = 7}),
                                     lane(4, 40, 4.0, {.save = true})};
  const std::vector<LaneResult> parts{fold_reports(std::vector{told[0], told[1]}), told[2]};
  const LaneResult at_once = fold_reports(told);
  const LaneResult in_parts = fold_reports(parts);
  EXPECT_EQ(in_parts.report.loss_sum, at_once.report.loss_sum);
  EXPECT_EQ(in_parts.report.score, at_once.report.score);
  EXPECT_EQ(in_parts.report.figures, at_once.report.figures);
  EXPECT_EQ(in_parts.wishes, at_once.wishes);
}

TEST(StepOutcome, TakesAllThatLanesHaveTold) {
  StepOutcome outcome{.applied = false, .gradient_norm = 3, .samples = 8, .waited = 1, .exchanged = 2};
  outcome.synchronized = false;
  outcome.take(lane(16, 6, 1.25, {.stop = true, .change = 9, .save = true}));
  const auto& [applied, norm, loss, score, samples, waited, exchanged, stop, change, save, synchronized, figures] =
      outcome;
  EXPECT_EQ(loss, 2) << "a mean over the samples";
  EXPECT_EQ(score, 6);
  EXPECT_TRUE(stop);
  EXPECT_EQ(change, 9U);
  EXPECT_TRUE(save);
  EXPECT_EQ(figures.mean("kl"), 1.25);
  // What is not told by lanes stays.
  EXPECT_FALSE(applied);
  EXPECT_EQ(norm, 3);
  EXPECT_EQ(samples, 8U);
  EXPECT_EQ(waited, 1);
  EXPECT_EQ(exchanged, 2);
  EXPECT_FALSE(synchronized);
}

TEST(StepOutcome, OfAPartOfTheStepTheScoreIsScaledToAllOfIt) {
  StepOutcome outcome{.samples = 8};
  outcome.take(lane(6, 1, 0.5), 2);
  EXPECT_EQ(outcome.loss, 3);
  EXPECT_EQ(outcome.score, 4);
}

}  // namespace
}  // namespace muster::strategies
