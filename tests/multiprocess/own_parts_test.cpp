// A user's program with a model in parts: alone, as several workers, and with losses at the moments that matter: while
// the program writes to the next version, and while all measure. The same bits each time.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/command.h"
#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::run_program;
using testing::TemporaryFolder;

struct Ended {
  Finished finished;
  std::string saved;  // what save() left
  std::string log;    // of the supervisor
  std::vector<Json> metrics;
};

std::vector<std::string> arguments(int workers, const std::string& mode) {
  return {"run", "-n", std::to_string(workers), OWN_PARTS, mode};
}

Ended run(int workers, const std::string& mode) {
  const TemporaryFolder folder;
  Ended ended{run_program(folder.path(), arguments(workers, mode)), {}, {}, {}};
  EXPECT_EQ(ended.finished.exit_code, 0) << mode << ": " << ended.finished.err;
  if (std::filesystem::exists(folder / "all.safetensors")) ended.saved = testing::slurp(folder / "all.safetensors");
  for (const auto& entry : std::filesystem::directory_iterator(folder / "runs")) {
    if (std::filesystem::exists(entry.path() / "log.supervisor.txt"))
      ended.log += testing::slurp(entry.path() / "log.supervisor.txt");
    if (std::filesystem::exists(entry.path() / "metrics.jsonl"))
      ended.metrics = testing::rows(testing::slurp(entry.path() / "metrics.jsonl"));
  }
  return ended;
}

// The replacement may come when all steps are done and the others have left: it leads then, and says the end again.
std::string without_last_again(const std::string& lines) {
  const std::size_t last = lines.find("weights ");
  return last == std::string::npos ? lines : lines.substr(0, lines.find('\n', last) + 1);
}

// But for how fast it went.
std::vector<Json> figures_of(const Ended& ended) {
  std::vector<Json> rows = ended.metrics;
  for (Json& row : rows)
    row.erase("samples_per_s");
  return rows;
}

void expect_figures(const Ended& ended) {
  ASSERT_EQ(ended.metrics.size(), 64U) << "60 steps, 3 measurings, the end";
  EXPECT_EQ(ended.metrics.front().at("event"), "step");
  EXPECT_TRUE(ended.metrics.front().at("reports").contains("distance"));
  EXPECT_GT(ended.metrics.front().at("samples_per_s"), 0);
  EXPECT_EQ(ended.metrics[20].at("event"), "measured");
  EXPECT_TRUE(ended.metrics[20].at("reports").contains("score"));
  EXPECT_EQ(ended.metrics.back().at("event"), "finished");
  EXPECT_EQ(ended.metrics.back().at("step"), 60);
}

TEST(OwnParts, HaveTheSameBitsForAnyWorkersAndThroughLosses) {
  const Ended alone = run(1, "train");
  expect_figures(alone);
  ASSERT_THAT(alone.finished.out, HasSubstr("weights "));
  ASSERT_FALSE(alone.saved.empty());
  const Ended two = run(2, "train");
  EXPECT_EQ(two.finished.out, alone.finished.out);
  EXPECT_EQ(two.saved, alone.saved);
  EXPECT_EQ(figures_of(two), figures_of(alone));
  // The worker that wrote half of what belongs to step 30 is gone, and the step is done again as a whole.
  for (const char* const mode : {"commit-killed", "measure-killed"}) {
    const Ended hurt = run(2, mode);
    EXPECT_THAT(hurt.log, HasSubstr("is lost")) << mode << hurt.finished.err;
    EXPECT_EQ(without_last_again(hurt.finished.out), alone.finished.out) << mode;
    EXPECT_EQ(hurt.saved, alone.saved) << mode;
  }
}

// The weights are in what is printed.
TEST(OwnParts, HaveTheSameBitsUnderMpirun) {
  const std::string mpirun = MPIRUN;
  if (mpirun.empty()) GTEST_SKIP() << "there is no mpirun";
  const std::string alone = run(1, "train").finished.out;
  const TemporaryFolder folder;
  std::vector<std::string> words{"env", "-C", folder.path().string(), mpirun};
  for (const char* const word :
       {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl",
        "self,vader,tcp", "--mca", "btl_tcp_if_include", "lo", "-n", "2", OWN_PARTS, "train"})
    words.emplace_back(word);
  const testing::CommandResult result = testing::Command(words).wait(std::chrono::seconds(200));
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr(alone));
}

TEST(OwnParts, WhatWorkersPrintIsKeptAndShownWithTheirRanks) {
  const TemporaryFolder folder;
  const Finished result =
      run_program(folder.path(), {"run", "-n", "2", "--name", "third", "--prefix", OWN_PARTS, "train"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("\\[[01]\\] step 20: "));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("\\[[01]\\] weights "));
  std::string logs;
  for (const char* const rank : {"0", "1"}) {
    const Finished log = run_program(folder.path(), {"logs", "third", rank});
    EXPECT_EQ(log.exit_code, 0) << log.err;
    logs += log.out;
  }
  EXPECT_THAT(logs, HasSubstr("step 20: "));
  EXPECT_THAT(run_program(folder.path(), {"logs", "third", "2"}).err, HasSubstr("Ranks with a log: 0"));
}

TEST(OwnParts, AWorkerWithoutTheFunctionIsRefused) {
  const TemporaryFolder folder;
  const Finished result = run_program(folder.path(), arguments(2, "differ"));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, ::testing::ContainsRegex("after_commit is (none|one) at worker [01] and (one|none)"));
}

TEST(OwnParts, AProgramThatAsksIsToldToStopAndKeepsWhatItHas) {
  const TemporaryFolder folder;
  Program program(folder.path(), arguments(2, "tell"));
  const TemporaryFolder elsewhere;  // for what the commands print
  const std::vector<std::string> runs{"--runs", (folder / "runs").string()};
  ASSERT_TRUE(testing::eventually(
      [&] {
        const Finished status = run_program(elsewhere.path(), {"status", "own_parts", runs[0], runs[1], "--json"});
        return status.exit_code == 0 && testing::rows(status.out).back().at("step") > 0 &&
               testing::rows(status.out).back().contains("figures");
      },
      Deadline::after(std::chrono::seconds(100))))
      << program.err();
  const Finished stop = run_program(elsewhere.path(), {"stop", "own_parts", runs[0], runs[1]});
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  const Finished result = program.wait();
  const std::string told = "told after step ";
  ASSERT_THAT(result.out, HasSubstr(told)) << result.err;
  const std::string step = result.out.substr(result.out.find(told) + told.size());
  const Finished resumed = run_program(folder.path(), arguments(2, "tell"));
  EXPECT_THAT(resumed.out, HasSubstr("resumed at " + step)) << resumed.err;
}

}  // namespace
}  // namespace muster
