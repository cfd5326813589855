// Every key of the list can change, every other one says why not.
#include "muster/trainer/job_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "muster/base/error.h"
#include "muster/trainer/job.h"

namespace muster::trainer {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRunningJob = "[optimizer]\nname = \"sgd\"\nlr = 0.1\nmomentum = 0.9\n[data]\nbatch = 64\n";

std::string refusal(const std::string& assignment, const std::vector<std::string>& earlier = {}) {
  try {
    check_change(kRunningJob, earlier, assignment);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(JobChanges, EveryKeyOnTheListIsAKeyOfTheJob) {
  trainer::Job job;
  const Schema schema = trainer::job_schema(job);
  EXPECT_TRUE(std::is_sorted(changeable_keys().begin(), changeable_keys().end()));
  for (const std::string& key : changeable_keys())
    schema.where(key);  // stops the test for a key that is none
}

TEST(JobChanges, GoodChangesAreAccepted) {
  for (const char* assignment : {"optimizer.lr=0.01", "optimizer.momentum=0.5", "optimizer.weight_decay=1e-4",
                                 "optimizer.clip_norm=1", "checkpoint.every_steps=10", "checkpoint.every_epochs=7"})
    EXPECT_EQ(refusal(assignment), "") << assignment;
}

TEST(JobChanges, ValuesAreHeldAgainstTheJobsOwnRules) {
  EXPECT_THAT(refusal("optimizer.lr=0"), HasSubstr("optimizer.lr"));
  EXPECT_THAT(refusal("optimizer.lr=fast"), HasSubstr("lr"));
  EXPECT_THAT(refusal("optimizer.momentum=1.5"), HasSubstr("momentum"));
  EXPECT_THAT(refusal("optimizer.beta1=0.5"), HasSubstr("has no effect with optimizer \"sgd\""));
}

TEST(JobChanges, TheOptimizersStateStaysWhatItIs) {
  EXPECT_THAT(refusal("optimizer.momentum=0"), HasSubstr("other state"));
  EXPECT_EQ(refusal("optimizer.momentum=0.1"), "");
}

TEST(JobChanges, EarlierChangesCount) {
  EXPECT_EQ(refusal("optimizer.lr=0.3", {"optimizer.lr=0.2", "optimizer.momentum=0.5"}), "");
}

TEST(JobChanges, FixedKeysAreRefusedWithTheReason) {
  EXPECT_THAT(refusal("parallel.workers=1"), HasSubstr("muster scale"));
  EXPECT_THAT(refusal("job.seed=3"), HasSubstr("Start a new run"));
  EXPECT_THAT(refusal("data.batch=128"), HasSubstr("Start a new run"));
  EXPECT_THAT(refusal("optimizer.name=adam"), HasSubstr("state"));
  EXPECT_THAT(refusal("optimizer.schedule=cosine"), HasSubstr("optimizer.lr"));  // the keys that can
}

TEST(JobChanges, TyposAreExplained) {
  EXPECT_THAT(refusal("optimizer.lrr=0.1"), HasSubstr("lr"));
  EXPECT_THAT(refusal("optimizer.lr"), HasSubstr("key=value"));
  EXPECT_THAT(refusal("=3"), HasSubstr("key=value"));
  EXPECT_THAT(refusal("lr=3"), HasSubstr("section.key=value"));
}

}  // namespace
}  // namespace muster::trainer
