// A coordinator whose workers are small scripts: how it ends, and what it says then.
#include "muster/coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a job file: its run can be resumed.
class OurTraining final : public Training {
 public:
  bool ours() const override { return true; }
};

class CoordinatorRunTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  int run(const std::string& script, int workers = 1) {
    CoordinatedJob job;
    job.name = "script";
    job.command = {"sh", {"-c", script}, {}};
    job.most_workers = workers;
    if (ours_) job.training = std::make_shared<const OurTraining>();
    Coordinator coordinator(std::move(job), [this](const std::string& line) { told_.push_back(line); });
    return coordinator.run(audience_);
  }

  const testing::TemporaryFolder temporary_;
  bool ours_ = false;
  Audience audience_;
  std::vector<std::string> told_;
};

TEST_F(CoordinatorRunTest, EndsAsItsWorkersDo) {
  int looks = 0;
  audience_.look = [&] { ++looks; };
  EXPECT_EQ(run("exit 0"), 0);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_GT(looks, 0);
  EXPECT_EQ(run("exit 7"), 7);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("ended with exit code 7 before anybody trained")));
  told_.clear();
  ours_ = true;
  EXPECT_EQ(run("exit 7"), 7);
  EXPECT_THAT(told_, IsEmpty()) << "workers of ours have said why";
}

TEST_F(CoordinatorRunTest, AWorkerThatNobodyCanReplaceEndsTheJobWithWhatToDo) {
  const std::string script = "echo > $MUSTER_STORE/value+fixed; kill -9 $$";
  Error error = testing::error_of([&] { run(script); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.message(), HasSubstr("worker 0 (pid "));
  EXPECT_THAT(error.remedy(), HasSubstr("What the workers said is above"));
  ours_ = true;
  error = testing::error_of([&] { run(script); });
  EXPECT_THAT(error.remedy(), HasSubstr("start again with --resume"));
}

TEST_F(CoordinatorRunTest, PassesOnWhatIsAskedOfIt) {
  const testing::TemporaryFolder folder;
  audience_.requested_signal = [&] { return std::filesystem::exists(folder / "there") ? SIGTERM : 0; };
  EXPECT_EQ(run("trap 'exit 143' TERM; touch " + (folder / "there").string() + "; while :; do sleep 0.01; done"), 143);
}

}  // namespace
}  // namespace muster::coordinator
