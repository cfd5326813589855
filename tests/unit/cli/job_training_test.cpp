// The answers about a job file's training against job files and run folders made here.
#include "muster/cli/job_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/trainer/run_changes.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobTrainingTest : public ::testing::Test {
 protected:
  JobTraining training_{[] {
    trainer::ResolvedJob resolved;
    resolved.text = "[optimizer]\nname = \"sgd\"\nlr = 0.1\nmomentum = 0.9\n";
    return resolved;
  }()};
  testing::TemporaryFolder run_;
};

TEST_F(JobTrainingTest, ChangesGoToTheWorkersAndComeBackWithTheirSteps) {
  EXPECT_THAT(training_.asked(run_.path()), IsEmpty());
  const std::vector<control::Change> changes{{1, "optimizer.lr=0.01", {}}, {2, "optimizer.momentum=0.5", {}}};
  training_.ask_for(run_.path(), changes);
  trainer::RunChanges worker(run_.path());
  EXPECT_EQ(worker.proposal(6), 2U);
  EXPECT_EQ(training_.asked(run_.path()), changes);
  EXPECT_THAT(training_.applied(run_.path()), IsEmpty());
  worker.agree(1, 7);
  worker.write();
  EXPECT_THAT(training_.applied(run_.path()), ::testing::ElementsAre(control::Change{1, "optimizer.lr=0.01", 7}));
}

TEST_F(JobTrainingTest, AChangeThatCannotBeIsRefused) {
  for (const char* assignment : {"job.lanes=2", "data.batch=7", "optimizer.momentum=0", "optimizer.lr=-1"}) {
    const Error error = testing::error_of([&] { training_.check_change({}, assignment); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput) << assignment;
  }
  training_.check_change({}, "optimizer.lr=0.01");
}

TEST_F(JobTrainingTest, AFailureIsWrittenIntoTheRunsFolder) {
  training_.write_failure(run_.path(), 5, "the disk is gone");
  EXPECT_EQ(Json::parse(testing::slurp(run_ / "metrics.jsonl")),
            (Json{{"event", "failed"}, {"step", 5}, {"reason", "the disk is gone"}}));
  EXPECT_THAT(testing::slurp(run_ / "log.txt"), HasSubstr("failed after step 5: the disk is gone"));
}

}  // namespace
}  // namespace muster::cli
