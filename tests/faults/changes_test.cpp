// `muster set` on a job that trains: the change counts from one step on, on every worker, and again when the run is
// resumed. The result is that of the job and of the changes with their steps.
#include <signal.h>

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::train_arguments;

class Changes : public ::testing::Test {
 protected:
  Changes() {
    testing::spill(folder_ / "job.toml",
                   testing::small_job("changed", {"job.epochs=", "job.steps=100000", "data.samples=6400",
                                                  "checkpoint.every_steps=50"}));
  }

  // Once the run has its record.
  void set(const std::string& assignment) {
    Finished result;
    ASSERT_TRUE(testing::eventually([&] {
      const testing::TemporaryFolder aside;  // the job's own output stands in the other
      result = run_program(aside.path(), {"set", "changed", assignment, "--runs", (folder_ / "runs").string()});
      return result.exit_code == 0;
    })) << result.err;
  }
  std::filesystem::path run() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "runs"))
      return entry.path();
    return {};
  }
  int newest_checkpoint() const {
    int newest = 0;
    if (!std::filesystem::exists(run() / "checkpoints")) return newest;  // killed before the first
    for (const auto& entry : std::filesystem::directory_iterator(run() / "checkpoints")) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-")) newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }
  // The changes whose step is known, once there are so many.
  std::vector<Json> changes(std::size_t count) const {
    std::vector<Json> found;
    EXPECT_TRUE(testing::eventually([&] {
      if (std::filesystem::exists(run() / "changes.jsonl")) found = rows(testing::slurp(run() / "changes.jsonl"));
      return found.size() >= count;
    }));
    EXPECT_EQ(found.size(), count);
    return found;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Changes, CountFromOneStepOnForEveryWorkerAndAgainWhenTheRunIsResumed) {
  {
    const testing::Failpoints slow("arena.commit.before_flip=delay=10");
    Program program(folder_.path(), train_arguments(3));
    set("optimizer.lr=0.05");
    changes(1);
    // Whoever comes later has to know of it.
    const std::vector<pid_t> workers = testing::children_of(program.pid());
    ASSERT_FALSE(workers.empty());
    ::kill(workers[0], SIGKILL);
    set("optimizer.momentum=0.5");
    changes(2);
    ASSERT_EQ(testing::kill_everything(program).signal, SIGKILL) << "the job ended too soon";
  }
  const std::vector<Json> made = changes(2);
  const std::string steps = fmt::format("job.steps={}", std::max<int>(newest_checkpoint(), made[1].at("step")) + 50);
  const Finished resumed = run_program(folder_.path(), train_arguments(2, {"--resume", steps}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const Json expected = rows(resumed.out).back();
  EXPECT_EQ(changes(2), made);

  // From the first step, by one worker, with the changes where they were.
  std::filesystem::create_directory(folder_ / "again");
  std::filesystem::copy(run(), folder_ / "again" / run().filename(), std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(folder_ / "again" / run().filename() / "checkpoints");
  std::filesystem::remove(folder_ / "again" / run().filename() / "metrics.jsonl");
  const Finished again = run_program(folder_.path(), train_arguments(1, {"--resume", steps, "job.runs=again"}));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(rows(again.out).back().at("weights"), expected.at("weights"));
  EXPECT_EQ(rows(again.out).back().at("test_loss"), expected.at("test_loss"));
  const Finished unchanged = run_program(folder_.path(), train_arguments(1, {steps, "job.runs=unchanged"}));
  EXPECT_NE(rows(unchanged.out).back().at("weights"), expected.at("weights"));

  // People can see it.
  std::vector<Json> told;
  for (const Json& row : rows(testing::slurp(folder_ / "again" / run().filename() / "metrics.jsonl"))) {
    if (row.at("event") == "change") told.push_back(row);
  }
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].at("assignment"), "optimizer.lr=0.05");
  EXPECT_EQ(told[0].at("step"), made[0].at("step"));
  const Json status = rows(run_program(folder_.path(), {"status", "changed", "--json"}).out).back();
  ASSERT_EQ(status.at("changes").size(), 2U);
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(status.at("changes")[i].at("assignment"), made[i].at("assignment"));
    EXPECT_EQ(status.at("changes")[i].at("step"), made[i].at("step"));
  }
}

// Two changes were acknowledged when the run of 5 steps ended: they are proposed in step 6 and made from step 7 on.
class ChangesOfAResumedRun : public Changes {
 protected:
  ChangesOfAResumedRun() {
    EXPECT_EQ(run_program(folder_.path(), train_arguments(1, {"job.steps=5"})).exit_code, 0);
    testing::spill(run() / "asked.jsonl",
                   "{\"number\":1,\"assignment\":\"optimizer.lr=0.05\"}\n"
                   "{\"number\":2,\"assignment\":\"optimizer.clip_norm=0.5\"}\n");
  }
  // A copy of the run goes on to step 20.
  Finished go_on(const std::string& runs, int workers, const std::string& rules = {}) {
    if (!std::filesystem::exists(folder_ / runs))
      std::filesystem::copy(folder_ / "runs", folder_ / runs, std::filesystem::copy_options::recursive);
    const testing::Failpoints armed(rules);
    return run_program(folder_.path(), train_arguments(workers, {"--resume", "job.steps=20", "job.runs=" + runs,
                                                                 "parallel.claims=static"}));
  }
  // Everything is killed where the only worker comes to this point.
  void die_at(const std::string& runs, const std::string& point) {
    std::filesystem::copy(folder_ / "runs", folder_ / runs, std::filesystem::copy_options::recursive);
    const testing::Failpoints armed(point + "=stop");
    Program program(folder_.path(), train_arguments(1, {"--resume", "job.steps=20", "job.runs=" + runs,
                                                        "parallel.claims=static", "parallel.liveness_seconds=600"}));
    ASSERT_EQ(testing::kill_everything_when_one_stops(program).signal, SIGKILL) << point;
  }
  void expect_made_at_step_7(const std::string& runs) const {
    const std::vector<Json> made = rows(testing::slurp(folder_ / runs / run().filename() / "changes.jsonl"));
    ASSERT_EQ(made.size(), 2U) << runs;
    for (const Json& change : made)
      EXPECT_EQ(change.at("step"), 7) << runs;
  }
};

TEST_F(ChangesOfAResumedRun, DeathsAroundTheWriteOfTheStepChangeNothing) {
  const Finished undisturbed = go_on("undisturbed", 1);
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  const Json expected = rows(undisturbed.out).back().at("weights");
  expect_made_at_step_7("undisturbed");
  const std::vector<std::string> deaths{
      "changes.write.before=kill@rank=0,attempt=0",
      "changes.write.after=kill@rank=0,attempt=0",
      // one leader after the other, until only those are left who were not there when it was agreed on
      "changes.write.before=kill@attempt=0",
  };
  for (std::size_t i = 0; i < deaths.size(); ++i) {
    const std::string runs = fmt::format("deaths-{}", i);
    const Finished result = go_on(runs, 2, deaths[i]);
    ASSERT_EQ(result.exit_code, 0) << deaths[i] << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr("worker 0 ")) << deaths[i] << ": it was not killed";
    EXPECT_EQ(rows(result.out).back().at("weights"), expected) << deaths[i];
    expect_made_at_step_7(runs);
  }
  // Nobody is left: the run is resumed from before the change.
  for (const char* point : {"changes.write.before", "changes.write.after"}) {
    const std::string runs = point;
    die_at(runs, point);
    const Finished result = go_on(runs, 2);
    ASSERT_EQ(result.exit_code, 0) << point << "\n" << result.err;
    EXPECT_EQ(rows(result.out).back().at("weights"), expected) << point;
    expect_made_at_step_7(runs);
  }
}

// Everybody dies with the commit in which it was agreed on: those who come agree on it again, later.
TEST_F(ChangesOfAResumedRun, WhatNobodyLivedToMakeIsMadeByThoseWhoCome) {
  const Finished result = go_on("lost", 2, "arena.commit.after_flip=kill@step=5,attempt=0");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::filesystem::path file = std::filesystem::path(run().filename()) / "changes.jsonl";
  ASSERT_EQ(rows(testing::slurp(folder_ / "lost" / file)).size(), 2U);
  std::filesystem::copy(folder_ / "lost" / file, folder_ / "runs" / file);
  const Finished again = go_on("again", 1);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(rows(again.out).back().at("weights"), rows(result.out).back().at("weights"));
}

TEST_F(ChangesOfAResumedRun, ACheckpointMadeWithAChangeNeedsIt) {
  ASSERT_EQ(go_on("runs", 1).exit_code, 0);
  std::filesystem::remove(run() / "changes.jsonl");
  const Finished result = go_on("runs", 1);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("change 2 of the job is not written down"));
}

}  // namespace
}  // namespace muster
