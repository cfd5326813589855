#include "muster/cli/job_service.h"

#include <unistd.h>

#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/json.h"
#include "muster/base/process.h"
#include "muster/control/access_token.h"
#include "muster/control/control_client.h"
#include "muster/control/store.h"
#include "muster/trainer/run_changes.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::cli {
namespace {

using namespace std::chrono_literals;
using control::JobPhase;
using control::SeatState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Deadline soon() {
  return Deadline::after(20s);
}

class JobServiceTest : public ::testing::Test {
 protected:
  JobServiceTest() {
    JobServiceOptions options;
    options.name = "digits";
    options.job_text = "[optimizer]\nname = \"sgd\"\nlr = 0.1\nmomentum = 0.9\n";
    options.least_workers = 1;
    options.most_workers = 3;
    options.warn = [this](const std::string& text) { warnings_.push_back(text); };
    options_ = options;
    service_.emplace(options);
  }
  // Two members, one of which computes lane 4, and one that starts.
  launch::SupervisorReport report(std::uint64_t generation, std::uint64_t step) const {
    launch::SupervisorReport report;
    report.generation = generation;
    report.step = step;
    const auto now = system_clock().now().time_since_epoch();
    report.seats = {{0, this_process(), SeatState::kMember, 0, 4, {comm::Activity::kComputing, now}},
                    {1, this_process(), SeatState::kMember, 2, std::nullopt, {comm::Activity::kWaiting, now}},
                    {2, this_process(), SeatState::kStarting, 0, std::nullopt, {}}};
    return report;
  }
  launch::SupervisorReport with_note(launch::SupervisorReport report, const std::string& run) const {
    report.note = Json{{"run", run}, {"total_steps", 90}, {"steps_per_epoch", 30}, {"batch", 64}}.dump();
    return report;
  }
  std::string run() const { return folder_.path().string(); }
  control::JobRecord record() const {
    return control::JobRecord(control::make_sqlite_store(control::store_file(run())));
  }

  testing::TemporaryFolder folder_;
  std::vector<std::string> warnings_;
  JobServiceOptions options_;
  std::optional<JobService> service_;
};

TEST_F(JobServiceTest, WishesForAllWorkersUntilToldOtherwise) {
  EXPECT_EQ(service_->wishes().workers, 3);
  EXPECT_FALSE(service_->wishes().stop);
}

TEST_F(JobServiceTest, WhatHappensIsInTheSupervisorsLogAtOnceAlsoWhatCameBeforeTheFolderWasKnown) {
  service_->note("worker 1 is lost");
  service_->report(with_note(report(1, 5), run()));
  service_->note("worker 2 is lost");
  EXPECT_THAT(testing::slurp(folder_ / "log.supervisor.txt"),
              ::testing::AllOf(HasSubstr("worker 1 is lost"), HasSubstr("worker 2 is lost")));
}

TEST_F(JobServiceTest, AFailureIsWrittenIntoTheRunsFolder) {
  service_->report(with_note(report(1, 5), run()));
  service_->end(JobPhase::kFailed, "the disk is gone");
  EXPECT_EQ(Json::parse(testing::slurp(folder_ / "metrics.jsonl")),
            (Json{{"event", "failed"}, {"step", 5}, {"reason", "the disk is gone"}}));
  for (const char* file : {"log.txt", "log.supervisor.txt"})
    EXPECT_THAT(testing::slurp(folder_ / file), HasSubstr("failed after step 5: the disk is gone")) << file;
}

TEST_F(JobServiceTest, MembersThatWereThereBeforeTheFolderWasKnownAreRecorded) {
  service_->report(report(1, 0));
  EXPECT_THAT(folder_.names(), IsEmpty());
  service_->report(with_note(report(1, 5), run()));
  service_->report(with_note(report(1, 7), run()));
  service_->end(JobPhase::kFinished, "");
  service_.reset();
  EXPECT_EQ(record().membership().generation, 1U);
  EXPECT_THAT(record().membership().members, SizeIs(3));
  EXPECT_EQ(record().membership().members[1].restarts, 2);
  EXPECT_EQ(record().standing().phase, JobPhase::kFinished);
  EXPECT_EQ(record().standing().step, 7U);
  EXPECT_EQ(record().lease()->holder, ProcessId()) << "given up in good order";
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JobServiceTest, TheLastChangeOfMembersIsRecordedHoweverLateItComes) {
  for (std::uint64_t generation = 1; generation <= 20; ++generation)
    service_->report(with_note(report(generation, generation), run()));
  service_->end(JobPhase::kFailed, "all workers are lost");
  service_.reset();
  EXPECT_EQ(record().membership().generation, 20U);
  EXPECT_EQ(record().standing().reason, "all workers are lost");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JobServiceTest, ShowsWhatTheLeaderIsAlarmedAboutUntilItIsOver) {
  launch::SupervisorReport alarmed = with_note(report(2, 40), run());
  Json note = Json::parse(alarmed.note);
  note["alarm"] = "no checkpoint was written since step 30 (2 attempts): disk full";
  alarmed.note = note.dump();
  service_->report(alarmed);
  const control::ControlClient client{folder_.path()};
  EXPECT_THAT(client.status(soon()).alarms, ::testing::ElementsAre(note["alarm"].get<std::string>()));
  service_->report(with_note(report(2, 41), run()));
  EXPECT_THAT(client.status(soon()).alarms, IsEmpty());
}

TEST_F(JobServiceTest, TellsHowItStandsAndTakesCommands) {
  service_->report(with_note(report(2, 40), run()));
  const control::ControlClient client{folder_.path()};
  const control::JobStatus status = client.status(soon());
  EXPECT_TRUE(status.live);
  EXPECT_EQ(status.job, "digits");
  EXPECT_EQ(status.generation, 2U);
  EXPECT_EQ(status.step, 40U);
  EXPECT_EQ(status.total_steps, 90U);
  EXPECT_EQ(status.epoch, 2U);
  ASSERT_THAT(status.members, SizeIs(3));
  EXPECT_EQ(status.members[0].state, "running");
  EXPECT_EQ(status.members[0].lane, 4U);
  EXPECT_EQ(status.members[0].step, 41U);
  EXPECT_EQ(status.members[1].waits_for, "the others");
  EXPECT_EQ(status.members[2].state, "starting");
  client.scale({.workers = 2}, soon());
  EXPECT_EQ(service_->wishes().workers, 2);
  EXPECT_FALSE(service_->wishes().stop);
  client.stop(soon());
  EXPECT_TRUE(service_->wishes().stop);
  service_->end(JobPhase::kStopped, "");
  EXPECT_FALSE(client.status(soon()).live);
}

// Two commands at once: the one that has read the record first is held up before it can say what it has read.
TEST_F(JobServiceTest, AStopThatWasAcknowledgedIsNotTakenBackByAnotherCommand) {
  service_->report(with_note(report(2, 40), run()));
  arm_failpoints("job_service.wishes.read=delay=1000@call=0");
  std::thread scales([&] { control::ControlClient(folder_.path()).scale({.workers = 2}, soon()); });
  while (failpoint_hits("job_service.wishes.read") == 0)
    std::this_thread::yield();
  control::ControlClient(folder_.path()).stop(soon());
  EXPECT_TRUE(service_->wishes().stop);
  scales.join();
  disarm_failpoints();
  EXPECT_TRUE(service_->wishes().stop);
  EXPECT_EQ(service_->wishes().workers, 2);
}

TEST_F(JobServiceTest, AChangeIsToldToTheWorkersAndRecordedWithTheStepTheyGiveIt) {
  service_->report(with_note(report(1, 5), run()));
  const control::ControlClient client{folder_.path()};
  EXPECT_EQ(client.set("optimizer.lr=0.01", soon()).number, 1U);
  EXPECT_EQ(client.set("optimizer.momentum=0.5", soon()).number, 2U);
  trainer::RunChanges worker(folder_.path());
  EXPECT_EQ(worker.proposal(6), 2U);
  EXPECT_EQ(record().changes()[0].applied_at_step, std::nullopt);
  worker.agree(1, 7);
  worker.write();
  service_->report(with_note(report(1, 7), run()));
  service_->end(JobPhase::kFinished, "");
  ASSERT_THAT(record().changes(), SizeIs(2));
  EXPECT_EQ(record().changes()[0].applied_at_step, 7U);
  EXPECT_EQ(record().changes()[1].applied_at_step, std::nullopt);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JobServiceTest, AChangeThatCannotBeIsNeitherStoredNorTold) {
  service_->report(with_note(report(1, 5), run()));
  const control::ControlClient client{folder_.path()};
  for (const char* assignment : {"job.lanes=2", "data.batch=7", "optimizer.momentum=0", "optimizer.lr=-1"}) {
    try {
      client.set(assignment, soon());
      FAIL() << assignment;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput) << assignment;
    }
  }
  EXPECT_THAT(record().changes(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "asked.jsonl"));
}

TEST_F(JobServiceTest, TheGenerationsOfAResumedRunComeAfterThoseOfBefore) {
  service_->report(with_note(report(3, 5), run()));
  service_->end(JobPhase::kFailed, "");
  service_.emplace(options_);
  service_->report(with_note(report(1, 5), run()));
  service_->report(with_note(report(2, 6), run()));
  EXPECT_EQ(control::ControlClient(folder_.path()).status(soon()).generation, 5U);
  service_->end(JobPhase::kFinished, "");
  EXPECT_EQ(record().membership().generation, 5U);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JobServiceTest, ALostRecordLosesNoChange) {
  service_->report(with_note(report(1, 5), run()));
  control::ControlClient(folder_.path()).set("optimizer.lr=0.01", soon());
  service_->end(JobPhase::kFailed, "");
  service_.reset();
  std::filesystem::remove(folder_ / "control.db");
  service_.emplace(options_);
  service_->report(with_note(report(1, 5), run()));
  EXPECT_EQ(control::ControlClient(folder_.path()).set("optimizer.lr=0.02", soon()).number, 2U);
  EXPECT_EQ(trainer::RunChanges(folder_.path()).asked()[0].assignment, "optimizer.lr=0.01");
}

// Two that resume one run at the same moment.
TEST_F(JobServiceTest, ARunThatAnotherProcessCoordinatesIsLeftAlone) {
  control::JobRecord winner = record();
  winner.take_over(process_of(::getppid()));
  const Error error = testing::error_of([&] { service_->report(with_note(report(1, 5), run())); });
  EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
  EXPECT_THAT(error.what(), HasSubstr(fmt::format("process {} coordinates the job and runs", ::getppid())));
  service_->end(JobPhase::kFailed, error.message());
  EXPECT_EQ(record().lease()->holder, process_of(::getppid()));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "metrics.jsonl")) << "a failure of the other's run";
}

TEST_F(JobServiceTest, AFolderThatCannotHoldTheRecordCostsAWarningAndNoMore) {
  for (const std::uint64_t step : {1U, 2U, 3U})
    service_->report(with_note(report(step, step), run() + "/nowhere"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("muster status and other commands cannot reach this job")));
  EXPECT_EQ(service_->wishes().workers, 3);
  service_->end(JobPhase::kFinished, "");
  EXPECT_THAT(warnings_, SizeIs(1));
}

}  // namespace
}  // namespace muster::cli
