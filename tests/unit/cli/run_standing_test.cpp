// Where a run stands by its files: the last step and its figures, and what is said of one that nobody runs any more.
#include "muster/cli/run_standing.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/sandbox.h"

namespace muster::cli {
namespace {

TEST(RunStanding, FiguresAreThoseOfTheLastStepThatHasARow) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(read_standing(folder.path()).figures.is_null());
  std::ofstream(folder / "metrics.jsonl")
      << R"({"event": "step", "step": 10, "loss": 2.0})" << '\n'
      << R"({"event": "step", "step": 20, "loss": 1.5, "reports": {"kl": 0.5}})" << '\n'
      << R"({"event": "measured", "step": 21, "reports": {"kl": 9}})" << '\n'
      << R"({"event": "step", "step": 30, "lo)";
  const RunStanding standing = read_standing(folder.path());
  EXPECT_EQ(standing.step, 21U);
  EXPECT_EQ(standing.figures.at("step"), 20);
  EXPECT_EQ(standing.figures.at("reports").at("kl"), 0.5);
}

TEST(RunStanding, OfAProgramOnlyItKnowsWhereCheckpointsAre) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << R"({"event": "step", "step": 10, "loss": 2.0})" << '\n';
  control::JobStatus own;
  correct_by_files(own, read_standing(folder.path()));
  EXPECT_EQ(own.state, "abandoned");
  ASSERT_EQ(own.alarms.size(), 1U);
  EXPECT_EQ(own.alarms.front(), "it has no checkpoint of ours");
  std::ofstream(folder / "job.toml") << "\n";
  control::JobStatus ours;
  correct_by_files(ours, read_standing(folder.path()));
  EXPECT_EQ(ours.alarms.front(), "it has no checkpoint");
}

}  // namespace
}  // namespace muster::cli
