#include "muster/trainer/run_changes.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

const std::vector<JobChange> kAsked{{1, "optimizer.lr=0.1"}, {2, "optimizer.momentum=0.5"}, {3, "optimizer.lr=0.2"}};

void ask(const testing::TemporaryFolder& folder, std::size_t count) {
  write_asked_changes(folder.path(), std::span(kAsked).first(count));
}

TEST(RunChanges, NothingIsProposedWhereNothingWasAsked) {
  const testing::TemporaryFolder folder;
  RunChanges changes(folder.path());
  EXPECT_EQ(changes.proposal(0), 0u);
  EXPECT_TRUE(changes.due(0, 0, 1).empty());
}

TEST(RunChanges, WhatAllAgreedOnGetsTheStepAtWhichItIsMade) {
  const testing::TemporaryFolder folder;
  RunChanges leader(folder.path());
  RunChanges other(folder.path());
  ask(folder, 2);
  EXPECT_EQ(leader.proposal(0), 2u);
  ask(folder, 3);  // too late for this step
  for (RunChanges* worker : {&leader, &other}) {
    const std::vector<JobChange> due = worker->due(0, 2, 7);
    ASSERT_EQ(due.size(), 2u);
    EXPECT_EQ(due[0].assignment, kAsked[0].assignment);
    EXPECT_EQ(due[1].assignment, kAsked[1].assignment);
    EXPECT_EQ(due[0].step, 7u);
    EXPECT_TRUE(worker->due(2, 2, 8).empty());
    EXPECT_EQ(worker->proposal(2), 3u);
  }
}

TEST(RunChanges, AResumedRunMakesThemAtTheirStepsAndNewOnesAfterwards) {
  const testing::TemporaryFolder folder;
  ask(folder, 2);
  {
    RunChanges first(folder.path());
    first.due(0, 1, 5);
    first.due(1, 2, 9);
    first.write();
  }
  ask(folder, 3);
  RunChanges resumed(folder.path());
  EXPECT_EQ(resumed.proposal(0), 0u);
  EXPECT_TRUE(resumed.due(0, 0, 4).empty());
  ASSERT_EQ(resumed.due(0, 0, 5).size(), 1u);
  EXPECT_EQ(resumed.proposal(1), 0u);  // the second comes first
  EXPECT_TRUE(resumed.due(1, 0, 8).empty());
  // Those who knew that it was made have died, and with them what they knew.
  ASSERT_EQ(resumed.due(1, 0, 12).size(), 1u);
  EXPECT_EQ(resumed.due(1, 0, 12)[0].step, 9u);
  EXPECT_EQ(resumed.proposal(2), 3u);
  ASSERT_EQ(resumed.due(2, 3, 13).size(), 1u);
  EXPECT_EQ(resumed.known().back().step, 13u);
}

TEST(RunChanges, AChangeThatIsNotThereIsAnError) {
  const testing::TemporaryFolder folder;
  ask(folder, 1);
  RunChanges changes(folder.path());
  EXPECT_THROW(changes.due(0, 2, 1), Error);
}

TEST(RunChanges, DamagedFilesAreRefused) {
  for (const char* text : {"{", "{\"number\":1}\n", "{\"number\":0,\"assignment\":\"a=1\",\"step\":1}\n",
                           "{\"number\":2,\"assignment\":\"a=1\",\"step\":1}\n"
                           "{\"number\":1,\"assignment\":\"a=1\",\"step\":1}\n"}) {
    const testing::TemporaryFolder folder;
    testing::spill(folder / "changes.jsonl", text);
    EXPECT_THROW(RunChanges changes(folder.path()), Error) << text;
  }
}

TEST(RunChanges, TheLastAssignmentOfAKeyCounts) {
  std::vector<std::string> assignments{"optimizer.lr=1", "optimizer.lr_like=2"};
  replace_assignment(assignments, "optimizer.lr=3");
  EXPECT_EQ(assignments, (std::vector<std::string>{"optimizer.lr_like=2", "optimizer.lr=3"}));
}

}  // namespace
}  // namespace muster::trainer
