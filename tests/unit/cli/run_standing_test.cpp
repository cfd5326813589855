// What files of a run tell of a job that nobody can be asked about. The commands as people type them are in
// tests/multiprocess/job_commands_test.cpp.
#include "muster/cli/run_standing.h"

#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "support/sandbox.h"

namespace muster::cli {
namespace {

constexpr ProcessId kNoProcess{2'000'000'000, 1};

control::JobStatus recorded(const ProcessId& worker) {
  control::JobStatus status;
  status.state = "running";
  status.members = {{.rank = 0, .process = worker}};
  return status;
}

TEST(RunStanding, ARunWithoutFilesTellsNothing) {
  const muster::testing::TemporaryFolder folder;
  const RunStanding standing = read_standing(folder.path());
  EXPECT_EQ(standing.step, 0U);
  EXPECT_FALSE(standing.checkpoint);
}

TEST(RunStanding, TheLastWholeRowCounts) {
  const muster::testing::TemporaryFolder folder;
  std::string text(70'000, 'x');  // more than is read, and no row
  text += "\n{\"event\":\"step\",\"step\":9}\n{\"event\":\"resumed\",\"step\":4}\n{\"event\":\"step\",\"step\":5";
  muster::testing::spill(folder / "metrics.jsonl", text);
  const RunStanding standing = read_standing(folder.path());
  EXPECT_EQ(standing.step, 4U);
  EXPECT_EQ(standing.last_event, "resumed");
}

TEST(RunStanding, WorkersThatLiveAreNotAbandoned) {
  control::JobStatus status = recorded(this_process());
  correct_by_files(status, {.step = 7});
  EXPECT_EQ(status.state, "running");
  EXPECT_EQ(status.step, 7U);
}

TEST(RunStanding, WorkersThatCameToTheEndAloneHaveFinished) {
  control::JobStatus status = recorded(kNoProcess);
  correct_by_files(status, {.step = 7, .checkpoint = 7, .last_event = "finished"});
  EXPECT_EQ(status.state, "finished");
}

TEST(RunStanding, WhatTheRecordSaysOfAnEndHolds) {
  control::JobStatus status = recorded(kNoProcess);
  status.state = "failed";
  correct_by_files(status, {.step = 7, .checkpoint = 7});
  EXPECT_EQ(status.state, "failed");
  EXPECT_EQ(status.step, 0U);
}

}  // namespace
}  // namespace muster::cli
