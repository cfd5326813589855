// The service of an agent beside a supervisor and a coordinator that are played here: what is typed on the host reaches
// the coordinator, and what the coordinator says reaches the host's workers.
#include "muster/coordinator/host_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/json.h"
#include "muster/base/mutex.h"
#include "muster/base/process.h"
#include "muster/control/access_token.h"
#include "muster/control/commands_folder.h"
#include "muster/control/control_client.h"
#include "muster/control/store.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using control::JobPhase;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline soon() {
  return Deadline::after(20s);
}

// Takes commands, and remembers them as "HOST REQUEST WHAT".
class PlayedCoordinator final : public control::ClusterCalls {
 public:
  control::Welcome join(const control::HostCard&) override { return {}; }
  control::Orders report(const control::HostReport&, std::uint64_t, std::chrono::milliseconds) override { return {}; }
  void store_set(std::uint64_t, std::string_view, std::string_view) override {}
  std::optional<std::string> store_get(std::uint64_t, std::string_view, std::chrono::milliseconds) override {
    return std::nullopt;
  }
  void leave(std::uint64_t, int, const std::string&) override {}

  control::JobStatus host_status(std::uint64_t host) override {
    remember(fmt::format("{} status", host));
    control::JobStatus status;
    status.job = "digits";
    status.run = "runs/elsewhere";
    status.state = "running";
    status.step = 77;
    status.coordinator_host = "first";
    status.coordinator_pid = 4711;
    status.members = {{.rank = 9}};
    status.changes = {{1, "optimizer.lr=0.1", 12}};
    return status;
  }
  control::WantedState host_scale(std::uint64_t host, const std::string& request,
                                  const control::Scaling& scaling) override {
    remember(fmt::format("{} {} scale {}", host, request, scaling.workers.value_or(-1)));
    return {.target_workers = scaling.workers.value_or(-1)};
  }
  control::WantedState host_stop(std::uint64_t host, const std::string& request) override {
    remember(fmt::format("{} {} stop", host, request));
    return {.stop = true};
  }
  control::Change host_set(std::uint64_t host, const std::string& request, const std::string& assignment) override {
    remember(fmt::format("{} {} set {}", host, request, assignment));
    if (!assignment.starts_with("optimizer.")) throw Error(ErrorKind::kInvalidInput, "no such key");
    return {3, assignment, std::nullopt};
  }

  void fail_once(ErrorKind kind) {
    const MutexLock lock(mutex_);
    failure_ = Error(kind, "as the test says");
  }
  std::vector<std::string> asked() {
    const MutexLock lock(mutex_);
    return asked_;
  }

 private:
  void remember(const std::string& what) {
    const MutexLock lock(mutex_);
    asked_.push_back(what);
    if (const std::optional<Error> failure = std::exchange(failure_, std::nullopt)) throw Error(*failure);
  }

  Mutex mutex_;
  std::vector<std::string> asked_ MUSTER_GUARDED_BY(mutex_);
  std::optional<Error> failure_ MUSTER_GUARDED_BY(mutex_);
};

class FakeTraining final : public Training {
 public:
  explicit FakeTraining(std::filesystem::path here) : here_(std::move(here)) {}
  bool ours() const override { return true; }
  std::filesystem::path local_run(const std::filesystem::path&) const override { return here_; }
  void ask_for(const std::filesystem::path& run, const std::vector<control::Change>& changes) const override {
    EXPECT_EQ(run, here_);
    const MutexLock lock(mutex_);
    asked_ = changes;
    ++times_;
  }
  std::vector<control::Change> asked(const std::filesystem::path&) const override {
    const MutexLock lock(mutex_);
    return asked_;
  }
  int times() const {
    const MutexLock lock(mutex_);
    return times_;
  }

 private:
  const std::filesystem::path here_;
  mutable Mutex mutex_;
  mutable std::vector<control::Change> asked_ MUSTER_GUARDED_BY(mutex_);
  mutable int times_ MUSTER_GUARDED_BY(mutex_) = 0;
};

class HostServiceTest : public ::testing::Test {
 protected:
  HostServiceTest() {
    testing::spill(run() / "job.toml", "");
    job_.name = "digits";
    job_.training = training_;
    begin();
  }
  void begin() {
    service_.reset();
    service_.emplace(job_, HostService::Line{played_, [] { return std::uint64_t{5}; }, "10.0.0.1:7400"},
                     [this](const std::string& line) {
                       const MutexLock lock(mutex_);
                       told_ += line + "\n";
                     });
  }
  std::filesystem::path run() const { return folder_.path(); }
  // The workers train, and have said where the leader keeps the run.
  void train(std::uint64_t generation = 1) {
    launch::SupervisorReport report;
    report.generation = generation;
    report.step = 20;
    report.store = "a store";
    report.workers = {{.rank = 2, .process = this_process(), .state = control::WorkerState::kRunning}};
    report.note = Json{{"run", "runs/elsewhere"}, {"total_steps", 90}}.dump();
    service_->report(report);
    ASSERT_TRUE(testing::eventually([&] { return answers(); })) << told();
  }
  bool answers() const {
    const auto folder = control::host_folder(run());
    if (!std::filesystem::exists(control::store_file(folder))) return false;
    const control::JobRecord record(control::make_sqlite_store(control::store_file(folder)));
    return record.endpoint().has_value() && record.standing().phase == JobPhase::kRunning;
  }
  std::string told() {
    const MutexLock lock(mutex_);
    return told_;
  }

  testing::TemporaryFolder folder_;
  Mutex mutex_;
  std::string told_ MUSTER_GUARDED_BY(mutex_);
  PlayedCoordinator played_;
  const std::shared_ptr<FakeTraining> training_ = std::make_shared<FakeTraining>(folder_.path());
  CoordinatedJob job_;
  std::optional<HostService> service_;
};

TEST_F(HostServiceTest, CommandsThatAreTypedOnTheHostReachTheCoordinatorOnceEach) {
  train();
  const control::ControlClient client(run());
  EXPECT_EQ(client.scale({.workers = 2}, soon(), "one").target_workers, 2);
  EXPECT_TRUE(client.stop(soon(), "two").stop);
  EXPECT_EQ(client.set("optimizer.lr=0.1", soon(), "three").number, 3U);
  testing::expect_error(ErrorKind::kInvalidInput, "no such key", [&] { client.set("job.name=x", soon(), "four"); });
  EXPECT_THAT(played_.asked(),
              ElementsAre("5 one scale 2", "5 two stop", "5 three set optimizer.lr=0.1", "5 four set job.name=x"));
}

TEST_F(HostServiceTest, AStatusIsTheCoordinatorsWithTheWorkersOfThisHost) {
  train();
  const control::JobStatus status = control::ControlClient(run()).status(soon());
  EXPECT_TRUE(status.live);
  EXPECT_EQ(status.step, 77U);
  EXPECT_EQ(status.coordinator_host, "first");
  EXPECT_EQ(status.run, run().string());
  ASSERT_EQ(status.members.size(), 1U);
  EXPECT_EQ(status.members[0].rank, 2);
  EXPECT_THAT(status.changes, ElementsAre(control::Change{1, "optimizer.lr=0.1", 12}));
}

TEST_F(HostServiceTest, ACommandIsSentAgainWhileTheHostJoinsAgain) {
  train();
  played_.fail_once(ErrorKind::kNotFound);
  EXPECT_TRUE(control::ControlClient(run()).stop(soon(), "one").stop);
  EXPECT_THAT(played_.asked(), ElementsAre("5 one stop", "5 one stop"));
}

TEST_F(HostServiceTest, ChangesAreLeftForTheWorkersAndNoneIsForgotten) {
  service_->ask({{1, "optimizer.lr=0.1", std::nullopt}});
  train();
  ASSERT_TRUE(testing::eventually([&] { return training_->asked(run()).size() == 1; }));
  // The coordinator has many, and has let go of the first.
  service_->ask({{2, "optimizer.lr=0.2", std::nullopt}, {3, "optimizer.lr=0.3", std::nullopt}});
  ASSERT_TRUE(testing::eventually([&] { return training_->asked(run()).size() == 3; }));
  EXPECT_EQ(training_->asked(run())[0].assignment, "optimizer.lr=0.1");
  EXPECT_EQ(training_->times(), 2);
}

// Whoever takes over here needs a term above all that there were, and what the workers have agreed on.
TEST_F(HostServiceTest, TheRecordFollowsTheCoordinatorsTermAlsoAfterAWriteThatFailed) {
  Mutex mutex;
  control::LedCluster cluster{"job", 1, "127.0.0.1:7400", "relay", "", {}};
  service_.reset();
  HostService::Line line{played_, [] { return std::uint64_t{5}; }, "10.0.0.1:7400"};
  line.cluster = [&] {
    const MutexLock lock(mutex);
    return cluster;
  };
  service_.emplace(job_, std::move(line), [this](const std::string& text) {
    const MutexLock lock(mutex_);
    told_ += text + "\n";
  });
  train();
  const control::JobRecord record(control::make_sqlite_store(control::store_file(control::host_folder(run()))));
  EXPECT_EQ(record.cluster(), cluster);
  arm_failpoints("control.store.before_commit=error@call=0");
  {
    const MutexLock lock(mutex);
    cluster.term = 2;
    cluster.agreed = {{"agreement/files", "these"}};
  }
  EXPECT_TRUE(testing::eventually([&] { return record.cluster()->term == 2; })) << told();
  disarm_failpoints();
  EXPECT_EQ(record.cluster(), cluster);
  service_->end(JobPhase::kStopped, "");
  service_.reset();
}

TEST_F(HostServiceTest, TheRecordSaysHowItEndedAndAnotherAgentMayTakeItsPlace) {
  train();
  service_->end(JobPhase::kStopped, "");
  const control::ControlClient client(run());
  EXPECT_EQ(client.record().standing(), (control::Standing{JobPhase::kStopped, "", 20, 0}));
  EXPECT_THAT(client.record().identity()->elsewhere,
              ::testing::AllOf(HasSubstr("runs/elsewhere"), HasSubstr("10.0.0.1:7400")));
  begin();
  train();  // from generation 1 on, and the record's does not go back
  EXPECT_EQ(client.record().membership().generation, 2U);
  EXPECT_EQ(told(), "");
}

TEST_F(HostServiceTest, ASecondAgentThatSeesTheSameFolderLeavesTheFirstAlone) {
  train();
  HostService second(job_, HostService::Line{played_, [] { return std::uint64_t{6}; }},
                     [this](const std::string& line) {
                       const MutexLock lock(mutex_);
                       told_ += line + "\n";
                     });
  launch::SupervisorReport report;
  report.generation = 1;
  report.note = Json{{"run", "runs/elsewhere"}}.dump();
  second.report(report);
  EXPECT_TRUE(testing::eventually([&] { return told().find("cannot reach the job") != std::string::npos; })) << told();
  control::ControlClient(run()).stop(soon(), "one");
  EXPECT_THAT(played_.asked(), ElementsAre("5 one stop"));
}

TEST_F(HostServiceTest, WhereTheCoordinatorIsOnThisHostItAnswersItself) {
  train();
  EXPECT_EQ(control::commands_folder(run()), control::host_folder(run()));
  control::JobRecord record(control::make_sqlite_store(control::store_file(run())));
  record.take_over(this_process());
  EXPECT_EQ(control::commands_folder(run()), control::host_folder(run())) << "of a coordinator that sees the folder";
  record.put_endpoint("unix-abstract:here");
  EXPECT_EQ(control::commands_folder(run()), run());
}

}  // namespace
}  // namespace muster::coordinator
