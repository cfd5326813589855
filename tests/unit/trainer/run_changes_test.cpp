// Workers that learn of changes at different moments come to the same steps, also over deaths and resumptions.
#include "muster/trainer/run_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<JobChange> kAsked{{1, "optimizer.lr=0.1"}, {2, "optimizer.momentum=0.5"}, {3, "optimizer.lr=0.2"}};

void ask(const testing::TemporaryFolder& folder, std::size_t count) {
  write_asked_changes(folder.path(), std::span(kAsked).first(count));
}

TEST(RunChanges, NothingIsProposedWhereNothingWasAsked) {
  const testing::TemporaryFolder folder;
  RunChanges changes(folder.path());
  EXPECT_EQ(changes.proposal(1), 0U);
  EXPECT_FALSE(changes.agree(0, 1));
  EXPECT_THAT(changes.assignments_at(1), IsEmpty());
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(RunChanges, WhatAllAgreedOnCountsFromThatStepOnForEveryWorker) {
  const testing::TemporaryFolder folder;
  RunChanges leader(folder.path());
  RunChanges other(folder.path());
  ask(folder, 2);
  EXPECT_EQ(leader.proposal(6), 2U);
  ask(folder, 3);  // too late for this step
  for (RunChanges* worker : {&leader, &other}) {
    EXPECT_TRUE(worker->agree(2, 7));
    EXPECT_THAT(worker->assignments_at(6), IsEmpty());
    EXPECT_THAT(worker->assignments_at(7), ElementsAre("optimizer.lr=0.1", "optimizer.momentum=0.5"));
    EXPECT_EQ(worker->number_at(6), 0U);
    EXPECT_EQ(worker->number_at(7), 2U);
    EXPECT_FALSE(worker->agree(2, 8)) << "they have their step";
    EXPECT_EQ(worker->proposal(7), 3U);
  }
}

// Each host has a folder of its own, and is told of changes at another moment.
TEST(RunChanges, BetweenHostsTheLeadersWordCounts) {
  const testing::TemporaryFolder here;
  const testing::TemporaryFolder there;
  RunChanges leader(here.path());
  RunChanges other(there.path());
  ask(there, 3);
  EXPECT_EQ(other.proposal(6), 3U);
  EXPECT_FALSE(leader.agree_on_known(3, 7)) << "it has not been told yet";
  EXPECT_FALSE(other.take(leader.to_text()));
  EXPECT_FALSE(other.knows(3));
  ask(here, 2);
  EXPECT_TRUE(leader.agree_on_known(3, 8));
  EXPECT_TRUE(other.take(leader.to_text()));
  other.write();
  for (const RunChanges& worker : {RunChanges(there.path()), other, leader}) {
    EXPECT_TRUE(worker.knows(2));
    EXPECT_FALSE(worker.knows(3));
    EXPECT_THAT(worker.assignments_at(7), IsEmpty());
    EXPECT_THAT(worker.assignments_at(8), ElementsAre("optimizer.lr=0.1", "optimizer.momentum=0.5"));
  }
  EXPECT_EQ(other.proposal(8), 3U) << "the rest is proposed again";
  testing::expect_error(ErrorKind::kDamaged, "out of order", [&] { other.take(leader.to_text() + leader.to_text()); });
}

TEST(RunChanges, TheLastAssignmentOfAKeyCounts) {
  const testing::TemporaryFolder folder;
  ask(folder, 3);
  RunChanges changes(folder.path());
  changes.agree(3, 4);
  EXPECT_THAT(changes.known(), SizeIs(3));
  EXPECT_THAT(changes.assignments_at(4), ElementsAre("optimizer.momentum=0.5", "optimizer.lr=0.2"));
}

TEST(RunChanges, WhatTheLeaderCouldNotWriteBeforeItDiedIsAgreedOnAgain) {
  const testing::TemporaryFolder folder;
  ask(folder, 1);
  RunChanges survivor(folder.path());
  EXPECT_TRUE(survivor.agree(1, 5));
  RunChanges after_the_loss(folder.path());
  EXPECT_THAT(after_the_loss.assignments_at(5), IsEmpty());
  EXPECT_TRUE(after_the_loss.agree(1, 5));
  after_the_loss.write();
  EXPECT_FALSE(RunChanges(folder.path()).agree(1, 5)) << "and a third one reads it";
  EXPECT_EQ(RunChanges(folder.path()).number_at(5), 1U);
}

TEST(RunChanges, AResumedRunMakesThemAtTheirStepsAndNewOnesAfterwards) {
  const testing::TemporaryFolder folder;
  ask(folder, 2);
  {
    RunChanges first(folder.path());
    first.agree(1, 5);
    first.agree(2, 9);
    first.write();
  }
  ask(folder, 3);
  RunChanges resumed(folder.path());
  EXPECT_THAT(resumed.assignments_at(4), IsEmpty());
  EXPECT_THAT(resumed.assignments_at(5), ElementsAre("optimizer.lr=0.1"));
  EXPECT_EQ(resumed.proposal(4), 0U);
  EXPECT_EQ(resumed.proposal(8), 0U) << "the second comes first";
  EXPECT_THAT(resumed.assignments_at(12), ElementsAre("optimizer.lr=0.1", "optimizer.momentum=0.5"));
  EXPECT_EQ(resumed.proposal(12), 3U);
  EXPECT_TRUE(resumed.agree(3, 13));
  EXPECT_EQ(resumed.known().back().step, 13U);
}

TEST(RunChanges, AChangeThatIsNotThereIsAnError) {
  const testing::TemporaryFolder folder;
  ask(folder, 1);
  RunChanges changes(folder.path());
  EXPECT_THROW(changes.agree(2, 1), Error);
}

TEST(RunChanges, DamagedFilesAreRefused) {
  for (const char* text :
       {"{", "{\"number\":1}\n", "{\"number\":0,\"assignment\":\"a=1\",\"step\":1}\n",
        "{\"number\":1,\"assignment\":\"a=1\",\"step\":0}\n",
        "{\"number\":2,\"assignment\":\"a=1\",\"step\":1}\n{\"number\":1,\"assignment\":\"a=1\",\"step\":1}\n",
        "{\"number\":1,\"assignment\":\"a=1\",\"step\":2}\n{\"number\":2,\"assignment\":\"a=1\",\"step\":1}\n"}) {
    const testing::TemporaryFolder folder;
    testing::spill(folder / "changes.jsonl", text);
    EXPECT_THROW(RunChanges changes(folder.path()), Error) << text;
  }
}

}  // namespace
}  // namespace muster::trainer
