// kill -9 of a training run at any moment, then --resume: the same final bits as a run that nobody touched.
#include <fstream>

#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using testing::Program;
using testing::rows;
using testing::run_program;

std::string job() {
  return testing::stateful_job(
      "killed", {"job.epochs=4", "job.lanes=", "data.samples=1000", "checkpoint.every_steps=3", "checkpoint.keep=2"});
}
TEST(KillAndResume, EndsWithTheBitsOfARunThatNobodyTouched) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "job.toml", job());
  const auto begin = system_clock().now();
  const Finished straight = run_program(folder.path(), {"train", "job.toml", "--set", "job.runs=straight", "--json"});
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  const Json expected = rows(straight.out).back();

  // The first inside a step, where it hits on any machine. Then at moments from the start of the process to its end, by
  // the time that a whole run takes on this one; a run that goes on from a checkpoint is shorter.
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(system_clock().now() - begin).count();
  RandomStream random({.seed = 2026});
  {
    const testing::Failpoints armed("arena.commit.before_flip=stop@step=20");
    Program program(folder.path(), {"train", "job.toml", "--json", "--set", "parallel.liveness_seconds=600"});
    ASSERT_EQ(testing::kill_everything_when_one_stops(program).signal, SIGKILL);
  }
  int kills = 1;
  const std::vector<std::string> arguments{"train", "job.toml", "--json", "--resume"};
  for (int attempt = 1; attempt < 40; ++attempt) {
    Program program(folder.path(), arguments);
    // sleeps: the kill falls anywhere in the run
    system_clock().sleep_for(
        std::chrono::milliseconds(static_cast<long>(random.below(static_cast<std::uint64_t>(whole)))));
    const Finished result = testing::kill_everything(program);
    if (result.exit_code == 0) break;
    ASSERT_EQ(result.signal, SIGKILL) << result.err;
    ++kills;
  }
  const Finished last = run_program(folder.path(), arguments);
  ASSERT_EQ(last.exit_code, 0) << last.err;
  const Json actual = rows(last.out).back();
  for (const char* key : {"step", "weights", "test_loss", "test_accuracy", "best_step", "best_loss"}) {
    EXPECT_EQ(actual.at(key), expected.at(key)) << key << " after " << kills << " kills";
  }
  // Nothing of the killed writers is left beside whole checkpoints.
  for (const auto& run : std::filesystem::directory_iterator(folder / "runs")) {
    for (const auto& entry : std::filesystem::directory_iterator(run.path() / "checkpoints")) {
      EXPECT_NE(entry.path().filename().string().front(), '.') << entry.path();
    }
  }
}

TEST(KillAndResume, ADamagedCheckpointIsNamedAndTheOneBeforeItUsed) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "job.toml", job());
  const Finished straight = run_program(folder.path(), {"train", "job.toml", "--json"});
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  const std::filesystem::path checkpoint = folder / rows(straight.out).back().at("checkpoint").get<std::string>();
  {
    std::fstream file(checkpoint / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('x');
  }
  const Finished resumed = run_program(folder.path(), {"train", "job.toml", "--json", "--resume"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find(checkpoint.filename().string()), std::string::npos) << resumed.err;
  EXPECT_EQ(rows(resumed.out).back().at("weights"), rows(straight.out).back().at("weights"));
}

// When the files are written is the program's choice then, and the only thing that differs.
TEST(AutomaticInterval, CheckpointsInsideAnEpochAndChangesNoBits) {
  const testing::TemporaryFolder folder;
  const testing::TemporaryFolder undisturbed;
  testing::spill(folder / "job.toml", job());
  testing::spill(undisturbed / "job.toml", job());
  // One epoch of some seconds: no other checkpoint comes before its end.
  const std::vector<std::string> longer{"--set", "job.epochs=1", "--set", "data.samples=40000"};
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "job.toml", "--json"});
    more.insert(more.end(), longer.begin(), longer.end());
    return more;
  };
  const Finished straight = run_program(undisturbed.path(), train({"--set", "checkpoint.every_steps=1000000"}));
  ASSERT_EQ(straight.exit_code, 0) << straight.err;

  Program program(folder.path(), train({"--set", "checkpoint.every_steps=auto"}));
  testing::wait_until_printed(program, "\"checkpoint\"");
  const Finished killed = testing::kill_everything(program);
  ASSERT_TRUE(killed.signal == SIGKILL || killed.exit_code == 0) << "a fast machine may have come to the end";

  const Finished resumed = run_program(
      folder.path(), train({"--set", "checkpoint.every_steps=auto", "--set", "parallel.workers=2", "--resume"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const Json start = rows(resumed.out).front();
  EXPECT_GT(start.at("first_step"), 0) << resumed.out;
  EXPECT_EQ(rows(resumed.out).back().at("weights"), rows(straight.out).back().at("weights"));
  if (start.at("first_step") == start.at("total_steps")) return;  // it had come to the end
  std::string logs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "runs")) {
    if (entry.path().filename().string().starts_with("log.")) logs += testing::slurp(entry.path());
  }
  EXPECT_NE(logs.find("what one costs is not known yet"), std::string::npos) << logs;
}

}  // namespace
}  // namespace muster
