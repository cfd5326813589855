// The service beside a supervisor that is played here, with commands that come at the worst moments, and with a
// training that is made up: what a job file has to say is in tests/unit/cli/job_training_test.cpp.
#include "muster/coordinator/job_service.h"

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
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using control::JobPhase;
using control::Worker;
using control::WorkerState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Deadline soon() {
  return Deadline::after(20s);
}

// Keys of the optimizer can change. What is in the run's folder elsewhere is in memory here.
class FakeTraining final : public Training {
 public:
  bool ours() const override { return true; }
  void check_change(const std::vector<std::string>& earlier, const std::string& assignment) const override {
    if (!assignment.starts_with("optimizer."))
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} after {} others", assignment, earlier.size()));
  }
  void ask_for(const std::filesystem::path&, const std::vector<control::Change>& changes) const override {
    asked_ = changes;
  }
  std::vector<control::Change> asked(const std::filesystem::path&) const override { return asked_; }
  std::vector<control::Change> applied(const std::filesystem::path&) const override { return applied_; }
  void write_failure(const std::filesystem::path& run, std::uint64_t step, const std::string& reason) const override {
    failures_.push_back(fmt::format("{} after step {}: {}", run.string(), step, reason));
  }

  mutable std::vector<control::Change> asked_;
  std::vector<control::Change> applied_;
  mutable std::vector<std::string> failures_;
};

class JobServiceTest : public ::testing::Test {
 protected:
  JobServiceTest() {
    job_.name = "digits";
    job_.least_workers = 1;
    job_.most_workers = 3;
    job_.training = training_;
    begin();
  }
  void begin() {
    service_.emplace(job_, [this](const std::string& text) { warnings_.push_back(text); });
  }
  // Two members, one of which computes lane 4, and one that starts.
  launch::SupervisorReport report(std::uint64_t generation, std::uint64_t step) const {
    launch::SupervisorReport report;
    report.generation = generation;
    report.step = step;
    report.workers = {{.rank = 0, .process = this_process(), .state = WorkerState::kRunning, .lane = 4},
                      {.rank = 1,
                       .process = this_process(),
                       .restarts = 2,
                       .state = WorkerState::kRunning,
                       .waits_for = "the others"},
                      {.rank = 2, .process = this_process(), .state = WorkerState::kReady}};
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
  std::shared_ptr<FakeTraining> training_ = std::make_shared<FakeTraining>();
  CoordinatedJob job_;
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
  EXPECT_THAT(training_->failures_, ElementsAre(run() + " after step 5: the disk is gone"));
  EXPECT_THAT(testing::slurp(folder_ / "log.supervisor.txt"), HasSubstr("failed after step 5: the disk is gone"));
}

TEST_F(JobServiceTest, ARunThatAnotherOneHasTakenOverIsNotMarkedAsFailed) {
  service_->report(with_note(report(1, 5), run()));
  control::JobRecord other = record();
  other.take_over(process_of(::getppid()), /*by_force=*/true);
  service_->end(JobPhase::kFailed, "another coordinator has taken over");
  EXPECT_THAT(training_->failures_, IsEmpty());
  EXPECT_TRUE(other.leads());
}

TEST_F(JobServiceTest, WhatTheWorkersHaveAgreedOnIsRecordedForWhoTakesOver) {
  control::LedCluster standing{"job", 1, "127.0.0.1:7400", "relay", "", {}};
  service_->lead_with([&] { return standing; });
  service_->report(with_note(report(1, 0), run()));
  standing.agreed = {{"agreement/files", "these"}};
  service_->report(with_note(report(2, 5), run()));
  service_->end(JobPhase::kRunning, "");
  EXPECT_EQ(record().cluster(), standing);
}

// Of a host that has come late: it was told of the newest only.
TEST_F(JobServiceTest, ChangesOfALostRecordKeepTheirNumbers) {
  training_->asked_ = {{7, "optimizer.lr=0.1", std::nullopt}, {8, "optimizer.lr=0.2", std::nullopt}};
  service_->report(with_note(report(1, 5), run()));
  EXPECT_EQ(control::ControlClient(folder_.path()).set("optimizer.lr=0.3", soon()).number, 9U);
  ASSERT_THAT(training_->asked_, SizeIs(3));
  EXPECT_EQ(training_->asked_[0].number, 7U);
  EXPECT_EQ(training_->asked_[2].number, 9U);
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
  EXPECT_EQ(record().membership().members[1],
            (Worker{.rank = 1, .process = this_process(), .restarts = 2, .state = WorkerState::kRunning}))
      << "who it is, not what it was at";
  EXPECT_EQ(record().membership().members[2].state, WorkerState::kStarting) << "earlier versions know no other";
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
  EXPECT_EQ(status.members[0].state, WorkerState::kRunning);
  EXPECT_EQ(status.members[0].lane, 4U);
  EXPECT_EQ(status.members[0].step, 41U);
  EXPECT_EQ(status.members[1].waits_for, "the others");
  EXPECT_EQ(status.members[2].state, WorkerState::kReady);
  EXPECT_FALSE(status.members[2].step);
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
  ASSERT_THAT(training_->asked_, SizeIs(2));
  EXPECT_EQ(training_->asked_[1].assignment, "optimizer.momentum=0.5");
  EXPECT_EQ(record().changes()[0].applied_at_step, std::nullopt);
  training_->applied_ = {{1, "optimizer.lr=0.01", 7}};
  service_->report(with_note(report(1, 7), run()));
  service_->end(JobPhase::kFinished, "");
  ASSERT_THAT(record().changes(), SizeIs(2));
  EXPECT_EQ(record().changes()[0].applied_at_step, 7U);
  EXPECT_EQ(record().changes()[1].applied_at_step, std::nullopt);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JobServiceTest, OtherHostsAreToldOfChangesAndTheirCommandsAreTakenUntilTheEnd) {
  std::vector<std::vector<control::Change>> told;
  service_->ask_others_with([&](const std::vector<control::Change>& changes) { told.push_back(changes); });
  testing::expect_error(ErrorKind::kPeerLost, "no commands", [&] { service_->commands().stop("early"); });
  service_->report(with_note(report(1, 5), run()));
  EXPECT_THAT(told, ElementsAre(IsEmpty()));
  control::ControlCalls& commands = service_->commands();
  EXPECT_EQ(commands.set("one", "optimizer.lr=0.01").number, 1U);
  EXPECT_EQ(commands.set("one", "optimizer.lr=0.01").number, 1U) << "a call that was sent again";
  EXPECT_EQ(commands.set("two", "optimizer.lr=0.02").number, 2U);
  EXPECT_THAT(told.back(), ElementsAre(control::Change{1, "optimizer.lr=0.01", std::nullopt},
                                       control::Change{2, "optimizer.lr=0.02", std::nullopt}));
  EXPECT_THAT(commands.status().changes, SizeIs(2));
  EXPECT_TRUE(commands.stop("three").stop);
  EXPECT_TRUE(service_->wishes().stop);
  service_->end(JobPhase::kStopped, "");
  testing::expect_error(ErrorKind::kPeerLost, "no commands", [&] { commands.stop("late"); });
}

TEST_F(JobServiceTest, AChangeThatCannotBeIsNeitherStoredNorTold) {
  service_->report(with_note(report(1, 5), run()));
  const control::ControlClient client{folder_.path()};
  const Error error = testing::error_of([&] { client.set("job.lanes=2", soon()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(record().changes(), IsEmpty());
  EXPECT_THAT(training_->asked_, IsEmpty());
  client.set("optimizer.lr=0.01", soon());
  EXPECT_THAT(testing::error_of([&] { client.set("job.lanes=2", soon()); }).what(), HasSubstr("after 1 others"));
}

TEST_F(JobServiceTest, TheGenerationsOfAResumedRunComeAfterThoseOfBefore) {
  service_->report(with_note(report(3, 5), run()));
  service_->end(JobPhase::kFailed, "");
  begin();
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
  begin();
  service_->report(with_note(report(1, 5), run()));
  EXPECT_EQ(control::ControlClient(folder_.path()).set("optimizer.lr=0.02", soon()).number, 2U);
  EXPECT_EQ(training_->asked_[0].assignment, "optimizer.lr=0.01");
}

TEST_F(JobServiceTest, AJobWhoseFolderIsKnownIsCommandedBeforeAnybodyHasLoaded) {
  job_.folder.path = run();
  begin();
  service_->report(report(0, 0));
  const control::ControlClient client{folder_.path()};
  EXPECT_EQ(client.status(soon()).state, "starting");
  client.scale({.workers = 2}, soon());
  EXPECT_EQ(service_->wishes().workers, 2);
  client.stop(soon());
  EXPECT_TRUE(service_->wishes().stop);
}

TEST_F(JobServiceTest, AFolderThatWasMadeGoesWithAJobThatTrainedNothingAndOnlyThen) {
  const std::filesystem::path runs = folder_ / "all" / "runs";
  const auto made = [&] {
    return make_job_folder(runs, [&] {
      std::filesystem::create_directories(runs / "one");
      return runs / "one";
    });
  };
  const auto after = [&](const launch::SupervisorReport& last, bool stop) {
    job_.folder = made();
    begin();
    service_->report(report(0, 0));
    service_->report(last);
    if (stop) control::ControlClient(runs / "one").stop(soon());
    service_->end(stop ? JobPhase::kStopped : JobPhase::kFailed, "");
    service_.reset();
    const bool there = std::filesystem::exists(runs / "one");
    if (!there) {
      EXPECT_FALSE(std::filesystem::exists(folder_ / "all")) << "the folders around it were made with it";
    }
    std::filesystem::remove_all(folder_ / "all");
    return there;
  };
  EXPECT_FALSE(after(report(0, 0), false));
  EXPECT_TRUE(after(report(0, 0), true)) << "who has stopped it looks at it";
  EXPECT_TRUE(after(report(1, 1), false)) << "it has trained";
  std::filesystem::create_directories(runs);
  job_.folder = made();
  begin();
  service_.reset();
  EXPECT_TRUE(std::filesystem::exists(runs)) << "it was there before";
  EXPECT_FALSE(std::filesystem::exists(runs / "one"));
}

TEST_F(JobServiceTest, ARunThatCouldNotBeLoadedIsAsItWasBefore) {
  service_->report(with_note(report(1, 5), run()));
  service_->end(JobPhase::kFinished, "");
  job_.folder.path = run();
  begin();
  service_->report(report(0, 0));
  EXPECT_EQ(record().standing().phase, JobPhase::kStarting);
  service_->end(JobPhase::kFailed, "its data has changed");
  EXPECT_EQ(record().standing().phase, JobPhase::kFinished);
  EXPECT_EQ(record().standing().step, 5U);
}

TEST_F(JobServiceTest, WorkersThatMeetElsewhereAreFoundThere) {
  job_.folder.path = run();
  begin();
  launch::SupervisorReport first = report(0, 0);
  first.store = "first";
  service_->report(first);
  first.store = "second";
  service_->report(first);
  EXPECT_TRUE(testing::eventually([&] { return record().launch()->store == "second"; }));
}

TEST_F(JobServiceTest, AProgramOfAUsersOwnHasNoKeys) {
  job_.training = std::make_shared<const Training>();
  job_.folder.path = run();
  begin();
  service_->report(report(1, 1));
  const control::ControlClient client{folder_.path()};
  const Error error = testing::error_of([&] { client.set("optimizer.lr=0.01", soon()); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("the workers are a program of its own"));
  service_->end(JobPhase::kFailed, "it was lost");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JobServiceTest, WhoTakesOverGoesOnWithWhatWasAskedOfTheOneBefore) {
  launch::SupervisorReport first = with_note(report(3, 40), run());
  first.store = "where-they-meet";
  job_.command = {"train-it", {"job.toml"}, {}};
  job_.watch.hang = 7s;
  begin();
  service_->report(first);
  control::ControlClient(folder_.path()).scale({.workers = 2}, soon());
  service_->end(JobPhase::kRunning, "");  // with the lease given up, as if its process were gone
  service_.reset();
  const RecordedJob recorded = read_recorded_job(folder_.path(), [&] {
    CoordinatedJob known;
    known.training = training_;
    return known;
  });
  EXPECT_EQ(recorded.store, "where-they-meet");
  EXPECT_EQ(recorded.job.name, "digits");
  EXPECT_EQ(recorded.job.command.program, "train-it");
  EXPECT_EQ(recorded.job.most_workers, 3);
  EXPECT_EQ(recorded.job.watch.hang, 7s);
  EXPECT_EQ(recorded.job.watch.start, 10min);
  service_.emplace(recorded, [this](const std::string& text) { warnings_.push_back(text); });
  EXPECT_EQ(service_->wishes().workers, 2);
  service_->report(with_note(report(4, 41), run()));
  EXPECT_EQ(control::ControlClient(folder_.path()).status(soon()).generation, 4U);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JobServiceTest, ARunThatSaysNothingOfItsWorkersCannotBeTakenOver) {
  record().take_over(this_process());
  const Error error = testing::error_of([&] {
    read_recorded_job(folder_.path(), [] {
      ADD_FAILURE() << "the job is looked at in vain";
      return CoordinatedJob();
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("this run has no workers that can be taken over"));
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
  EXPECT_THAT(training_->failures_, IsEmpty()) << "a failure of the other's run";
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
}  // namespace muster::coordinator
