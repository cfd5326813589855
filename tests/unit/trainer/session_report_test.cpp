// Rows of a user's session: which steps have one, what stands in it, and that a file that cannot be had costs nothing
// else.
#include "muster/trainer/session_report.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/json.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

std::vector<Json> rows_of(const std::filesystem::path& path) {
  std::vector<Json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    rows.push_back(Json::parse(line));
  return rows;
}

strategies::StepOutcome outcome_of(double loss) {
  strategies::StepOutcome outcome;
  outcome.samples = 10;
  outcome.loss = loss;
  outcome.gradient_norm = 3;
  outcome.figures.add("kl", loss / 2, 10);
  return outcome;
}

TEST(SessionReport, HasAboutAHundredRowsAnEpochWithWhatLanesReport) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> warnings;
  SessionReport report(folder / "metrics.jsonl", [&](const std::string& why) { warnings.push_back(why); });
  for (std::uint64_t step = 0; step < 250; ++step)
    report.step({{0, step * 10, step}, 250, 0.1, 2, 0}, outcome_of(static_cast<double>(step)));
  const std::vector<Json> rows = rows_of(folder / "metrics.jsonl");
  ASSERT_EQ(rows.size(), 84U) << "each third, and the last";
  EXPECT_EQ(rows[1], (Json{{"event", "step"},
                           {"epoch", 0},
                           {"step", 6},
                           {"loss", 5.0},
                           {"lr", 0.1},
                           {"gradient_norm", 3.0},
                           {"samples", 10},
                           {"samples_per_s", 5.0},
                           {"skipped", 0},
                           {"reports", {{"kl", 2.5}}}}));
  EXPECT_EQ(rows.back().at("step"), 250);
  EXPECT_TRUE(warnings.empty());
}

TEST(SessionReport, OfShortEpochsTheRowsBecomeRarer) {
  const testing::TemporaryFolder folder;
  SessionReport report(folder / "metrics.jsonl", [](const std::string&) {});
  for (std::uint64_t step = 0; step < 10000; ++step)
    report.step({{step, 0, step}, 1, 0.1, 2, 0}, outcome_of(1));
  EXPECT_EQ(rows_of(folder / "metrics.jsonl").size(), 1900U) << "each of the first thousand, then each tenth";
}

TEST(SessionReport, OtherEventsStandBetweenTheSteps) {
  const testing::TemporaryFolder folder;
  SessionReport report(folder / "metrics.jsonl", [](const std::string&) {});
  report.evaluation({1, 0, 40}, {0.5, {{"accuracy", 0.75}}, 64});
  compute::Figures figures;
  figures.add("loss", 0.25, 4);
  report.measured({1, 0, 40}, figures);
  report.ended({1, 0, 40}, "finished", 2);
  const std::vector<Json> rows = rows_of(folder / "metrics.jsonl");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0], Json::parse(R"({"event": "evaluation", "epoch": 1, "step": 40, "loss": 0.5, "samples": 64,
                                     "accuracy": 0.75})"));
  EXPECT_EQ(rows[1], Json::parse(R"({"event": "measured", "epoch": 1, "step": 40, "reports": {"loss": 0.25}})"));
  EXPECT_EQ(rows[2], Json::parse(R"({"event": "finished", "epoch": 1, "step": 40, "skipped": 2})"));
}

TEST(SessionReport, AFileThatCannotBeHadCostsOneWarning) {
  const testing::TemporaryFolder folder;
  int warnings = 0;
  SessionReport report(folder / "missing" / "metrics.jsonl", [&](const std::string&) { ++warnings; });
  EXPECT_EQ(rows_of(folder / "missing" / "metrics.jsonl").size(), 0U);
  report.ended({}, "finished", 0);
  report.ended({}, "finished", 0);
  EXPECT_EQ(warnings, 1);
}

}  // namespace
}  // namespace muster::trainer
