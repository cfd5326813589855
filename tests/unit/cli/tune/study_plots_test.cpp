// Plots: every trial that has a result is on them, at its place, and names from outside do no harm.
#include "muster/cli/tune/study_plots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using tuning::History;
using tuning::Parameter;
using tuning::StudyPlan;
using tuning::Trial;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

StudyPlan plan_of() {
  StudyPlan plan;
  plan.space =
      tuning::Space({Parameter::uniform("x", 0, 1), Parameter::choice("<kind>", {std::string("a"), std::string("b")})});
  return plan;
}

// `results`: of finished trials; the one after them has failed.
History history_of(const std::vector<double>& results) {
  History history;
  for (std::size_t i = 0; i <= results.size(); ++i) {
    Trial trial;
    trial.number = i;
    trial.values = {{"x", 0.25}, {"<kind>", std::string("a")}};
    history.add(trial);
    history.run(i);
    if (i < results.size())
      history.finish(i, {results[i]});
    else
      history.fail(i, "no luck");
  }
  return history;
}

TEST(StudyPlotsTest, HistoryHasAPointForEachResultAndALineThatOnlyFalls) {
  const std::string svg = plot_history(plan_of(), history_of({3.0, 1.0, 2.0}));
  EXPECT_EQ(count_of(svg, "<circle"), 3U);
  // 3, then down to 1, where it stays: left, lower edge of the first, lower edge of the second, and to the right.
  EXPECT_THAT(svg, HasSubstr("points=\"70.0,34.0 385.0,34.0 385.0,276.0 700.0,276.0 \""));
}

TEST(StudyPlotsTest, ParallelHasALineForEachResult) {
  EXPECT_EQ(count_of(plot_parallel(plan_of(), history_of({3.0, 1.0, 2.0})), "<polyline"), 3U);
}

TEST(StudyPlotsTest, SlicesHaveAPointForEachKeyAndResult) {
  EXPECT_EQ(count_of(plot_slices(plan_of(), history_of({3.0, 1.0})), "<circle"), 4U);
}

TEST(StudyPlotsTest, NamesFromOutsideAreEscaped) {
  for (const std::string& svg : {plot_parallel(plan_of(), history_of({1.0, 2.0})),
                                 plot_slices(plan_of(), history_of({1.0})), plot_importance({{"<kind>", 0.5}})}) {
    EXPECT_EQ(svg.find("<kind>"), std::string::npos);
    EXPECT_THAT(svg, HasSubstr("&lt;kind&gt;"));
  }
}

TEST(StudyPlotsTest, AStudyWithoutResultsSaysSo) {
  EXPECT_THAT(plot_history(plan_of(), History()), HasSubstr("no trial"));
  EXPECT_THAT(plot_slices(plan_of(), history_of({})), HasSubstr("no trial"));
  EXPECT_THAT(plot_importance({}), HasSubstr("too few"));
}

}  // namespace
}  // namespace muster::cli
