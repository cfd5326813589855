// Which run a job of a batch system goes on with when it is started again.
#include "muster/cli/restart_note.h"

#include <gtest/gtest.h>

#include "support/sandbox.h"

namespace muster::cli {
namespace {

launch::Surroundings slurm(int restarts, const std::string& job = "slurm-42.0") {
  launch::Surroundings surroundings;
  surroundings.launcher = "slurm";
  surroundings.job = job;
  surroundings.restarts = restarts;
  return surroundings;
}

TEST(RestartNote, AJobThatIsStartedAgainGoesOnWithItsOwnRun) {
  const testing::TemporaryFolder runs;
  const std::filesystem::path run = runs / "far-1";
  std::filesystem::create_directory(run);
  testing::spill(run / "job.toml", "");
  RestartNote(runs.path(), slurm(0)).remember(run);
  EXPECT_FALSE(RestartNote(runs.path(), slurm(0)).run()) << "a number that Slurm has given anew";
  EXPECT_EQ(RestartNote(runs.path(), slurm(1)).run(), run);
  EXPECT_FALSE(RestartNote(runs.path(), slurm(1, "slurm-43.0")).run()) << "another job";
  launch::Surroundings other_node = slurm(1);
  other_node.node = 1;
  EXPECT_FALSE(RestartNote(runs.path(), other_node).run()) << "node 0 says what is trained";
  std::filesystem::remove(run / "job.toml");
  EXPECT_FALSE(RestartNote(runs.path(), slurm(1)).run()) << "it is no run any more";
}

TEST(RestartNote, OfAJobThatIsDoneNothingIsLeft) {
  const testing::TemporaryFolder runs;
  std::filesystem::create_directory(runs / "far-1");
  testing::spill(runs / "far-1/job.toml", "");
  const RestartNote note(runs.path(), slurm(1));
  note.remember(runs / "far-1");
  note.forget();
  EXPECT_FALSE(note.run());
  EXPECT_EQ(runs.names().size(), 1U);
}

TEST(RestartNote, WhereNothingStartsAJobAgainThereIsNone) {
  const testing::TemporaryFolder runs;
  const RestartNote note(runs.path(), {});
  note.remember(runs.path());
  EXPECT_FALSE(note.run());
  EXPECT_TRUE(runs.names().empty());
}

}  // namespace
}  // namespace muster::cli
