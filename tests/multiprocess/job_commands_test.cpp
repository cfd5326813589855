// The commands to a running job as a user types them. The coordinator is this test: a record and a server of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/control/access_token.h"
#include "muster/control/control_server.h"
#include "muster/data/ledger.h"
#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::spill;
using testing::TemporaryFolder;

constexpr ProcessId kNobody{2'000'000'000, 1};

class JobCommandsTest : public ::testing::Test {
 protected:
  JobCommandsTest() {
    std::filesystem::create_directories(run());
    spill(run() / "job.toml", "[optimizer]\nname = \"sgd\"\nlr = 0.1\n");
  }

  std::filesystem::path run() const { return folder_ / "runs/small-20261115-193427"; }
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }
  void make_record(const ProcessId& coordinator) {
    record_ = std::make_unique<control::JobRecord>(control::make_sqlite_store(control::store_file(run())));
    record_->take_over(coordinator);
    record_->begin({"small", run().string(), "20261115-193427"}, {1, 4, 2, false});
  }
  void coordinate() {
    make_record(this_process());
    control::ControlCallbacks callbacks;
    callbacks.status = [this] {
      control::JobStatus status;
      status.job = "small";
      status.state = "running";
      status.step = 7;
      status.target_workers = record_->wanted().target_workers;
      status.coordinator_pid = this_process().pid;
      return status;
    };
    // Stops at once, as a coordinator does in the end.
    callbacks.command_stored = [this] {
      if (!record_->wanted().stop) return;
      record_->put_standing({control::JobPhase::kStopped, "", 8, 20});
      record_->release();
    };
    server_ = std::make_unique<control::ControlServer>(*record_, run(), callbacks, log_);
  }

  TemporaryFolder folder_;
  Log log_{LogLevel::kOff};
  std::unique_ptr<control::JobRecord> record_;
  std::unique_ptr<control::ControlServer> server_;
};

TEST_F(JobCommandsTest, NothingRuns) {
  const Finished none = muster({"status"});
  EXPECT_EQ(none.exit_code, 0) << none.err;
  EXPECT_THAT(none.out, HasSubstr("No job runs under runs"));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"scale", "small", "2"}, {"set", "small", "optimizer.lr=1"}}) {
    const Finished no_record = muster(command);
    EXPECT_EQ(no_record.exit_code, 2);
    EXPECT_THAT(no_record.err, AllOf(HasSubstr("does not run any more"), HasSubstr("No job runs under runs")));
  }
}

TEST_F(JobCommandsTest, ACommandToANameThatNothingRunsUnderNamesWhatDoes) {
  coordinate();
  std::filesystem::create_directories(folder_ / "runs/older-20251115-193427");
  spill(folder_ / "runs/older-20251115-193427/job.toml", "");
  for (const std::string name : {"larger", "older"}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"stop", name}, {"scale", name, "2"}, {"set", name, "optimizer.lr=1"}}) {
      const Finished result = muster(command);
      EXPECT_EQ(result.exit_code, 2) << command[0] << " " << name << ": " << result.err;
      EXPECT_THAT(result.err, HasSubstr("Running under runs: small-20261115-193427.")) << command[0] << " " << name;
    }
  }
}

TEST_F(JobCommandsTest, SetOnAProgramOfTheUsersSaysThatItHasNoKeys) {
  coordinate();
  std::filesystem::remove(run() / "job.toml");
  const Finished set = muster({"set", "small", "optimizer.lr=1"});
  EXPECT_EQ(set.exit_code, 2);
  EXPECT_THAT(set.err, HasSubstr("a program of their own"));
}

// Its record still says that it runs, at the step it began with.
TEST_F(JobCommandsTest, AJobThatNobodyRunsAnyMoreIsShownWhereItsFilesStand) {
  make_record(kNobody);
  record_->put_standing({control::JobPhase::kRunning, "", 0, 0});
  record_->put_membership({.generation = 2, .members = {{0, kNobody, 0, control::WorkerState::kRunning}}});
  spill(run() / "metrics.jsonl",
        "{\"event\":\"step\",\"step\":41}\n{\"event\":\"interrupted\",\"step\":42}\n{\"event\":\"st");
  std::filesystem::create_directories(run() / "checkpoints/step-000000000040");
  const Finished status = muster({"status", "small"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_THAT(status.out, AllOf(HasSubstr("abandoned: nobody runs it any more"), HasSubstr("step         42"),
                                HasSubstr("newest checkpoint is of step 40"), HasSubstr("--resume")));
  EXPECT_EQ(rows(muster({"status", "small", "--json"}).out)[0]["state"], "abandoned");
  const Finished stop = muster({"stop", "small"});
  EXPECT_EQ(stop.exit_code, 2);
  EXPECT_THAT(stop.err, HasSubstr("does not run any more"));
}

TEST_F(JobCommandsTest, StatusScaleAndSetReachTheCoordinator) {
  coordinate();
  const Finished scaled = muster({"scale", "small", "3"});
  EXPECT_EQ(scaled.exit_code, 0) << scaled.err;
  EXPECT_EQ(record_->wanted().target_workers, 3);
  const Finished status = muster({"status", "--json"});
  ASSERT_EQ(rows(status.out).size(), 1u) << status.err;
  EXPECT_EQ(rows(status.out)[0]["job"], "small");
  EXPECT_EQ(rows(status.out)[0]["run"], "runs/small-20261115-193427");
  EXPECT_EQ(rows(status.out)[0]["workers"]["target"], 3);
  EXPECT_EQ(rows(status.out)[0]["coordinator"]["live"], true);
  const Finished set = muster({"set", "small", "optimizer.lr=0.01"});
  EXPECT_EQ(set.exit_code, 0) << set.err;
  ASSERT_EQ(record_->changes().size(), 1u);
  EXPECT_EQ(record_->changes()[0].assignment, "optimizer.lr=0.01");
}

TEST_F(JobCommandsTest, MistakesEndWithTwoAndChangeNothing) {
  coordinate();
  const Finished scaled = muster({"scale", "small", "9"});
  EXPECT_EQ(scaled.exit_code, 2);
  EXPECT_THAT(scaled.err, HasSubstr("1 to 4"));
  const Finished set = muster({"set", "small", "job.seed=4"});
  EXPECT_EQ(set.exit_code, 2);
  EXPECT_THAT(set.err, HasSubstr("cannot change while a job runs"));
  EXPECT_THAT(record_->changes(), IsEmpty());
  EXPECT_EQ(record_->wanted().target_workers, 2);
}

TEST_F(JobCommandsTest, StopWaitsForTheEnd) {
  coordinate();
  const Finished stopped = muster({"stop", "small"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("stopped at step 8"));
  const Finished again = muster({"stop", "small"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr("over already: stopped"));
}

TEST_F(JobCommandsTest, CoordinatorThatIsGoneIsAFailureThatIsExplained) {
  make_record(kNobody);
  record_->put_membership({.generation = 2, .members = {{0, this_process(), 0, control::WorkerState::kRunning}}});
  const Finished stop = muster({"stop", "small"});
  EXPECT_EQ(stop.exit_code, 1);
  EXPECT_THAT(stop.err, AllOf(HasSubstr("is gone"), HasSubstr("workers still run: 0"), HasSubstr("muster attach")));
  const Finished status = muster({"status", "small"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_THAT(status.out, AllOf(HasSubstr("coordinator  none"), HasSubstr("! the coordinator")));
}

TEST_F(JobCommandsTest, LogsShowsTheLogOfARank) {
  spill(run() / "log.txt", "first\n");
  spill(run() / "log.2.txt", "third\n");
  EXPECT_EQ(muster({"logs", "small", "2", "--follow"}).out, "third\n");  // nothing runs: it ends
  const Finished missing = muster({"logs", "small", "1"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("Ranks with a log: 0 and 2"));
  spill(run() / "log.supervisor.txt", "worker 2 is lost\n");
  EXPECT_EQ(muster({"logs", "small", "--supervisor"}).out, "worker 2 is lost\n");
}

TEST_F(JobCommandsTest, LogsOfAProgramOfTheUsersAreItsSupervisors) {
  make_record(kNobody);
  std::filesystem::remove(run() / "job.toml");
  const Finished early = muster({"logs", "small"});
  EXPECT_EQ(early.exit_code, 2);
  EXPECT_THAT(early.err, HasSubstr("the supervisor has no log yet"));
  spill(run() / "log.supervisor.txt", "worker 2 is lost\n");
  EXPECT_EQ(muster({"logs", "small"}).out, "worker 2 is lost\n");
  const Finished rank = muster({"logs", "small", "1"});
  EXPECT_EQ(rank.exit_code, 2);
  EXPECT_THAT(rank.err, HasSubstr("print where muster run was started"));
}

TEST_F(JobCommandsTest, LogsFollowsUntilTheJobIsOver) {
  make_record(this_process());
  spill(run() / "log.txt", "one\n");
  Program following(folder_.path(), {"logs", "small", "--follow"});
  ASSERT_TRUE(testing::eventually([&] { return following.out() == "one\n"; })) << following.out();
  std::ofstream(run() / "log.txt", std::ios::app) << "two\n";
  record_->release();
  const Finished finished = following.wait();
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(finished.out, "one\ntwo\n");
}

TEST_F(JobCommandsTest, LedgerCheckProvesAndRefutes) {
  {
    data::LedgerWriter writer(run() / "ledger", {.epoch_samples = 4});
    for (std::uint64_t step = 0; step < 4; ++step) {
      const std::uint64_t first = step % 2 * 2;
      writer.record_lane(step / 2, step, 0, std::vector<std::uint64_t>{first, first + 1});
      writer.record_commit(step / 2, step, 1);
    }
  }
  const Finished good = muster({"ledger", "check", "small"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("Exact: 2 whole epoch(s) of 4 samples"));
  {
    data::LedgerWriter writer(run() / "ledger", {.worker = 1, .epoch_samples = 4});
    writer.record_lane(2, 4, 0, std::vector<std::uint64_t>{3, 3});
    writer.record_commit(2, 4, 1);
  }
  const Finished bad = muster({"ledger", "check", "small"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err,
              AllOf(HasSubstr("worker-001-0000.ledger record 0"), HasSubstr("epoch 2"), HasSubstr("sample 3")));
  const Finished json = muster({"ledger", "check", "small", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(rows(json.out)[0]["exact"], false);
}

}  // namespace
}  // namespace muster
