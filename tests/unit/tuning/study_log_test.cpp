// A study on disk: what was committed is there for whoever opens it, in the same order; of two processes one is first;
// who is lost loses its trials and cannot tell any more.
#include "muster/tuning/study_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "muster/base/process.h"
#include "muster/control/store.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::tuning {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StudyPlan small_plan() {
  StudyPlan plan;
  plan.name = "small";
  plan.space = Space({Parameter::uniform("x", 0, 1)});
  plan.searcher = searcher_named("random");
  plan.budget.trials = 10;
  return plan;
}

class StudyLogTest : public ::testing::Test {
 protected:
  StudyLog open(const StudyPlan& plan = small_plan(), const StudyLogOptions& options = {}) {
    return StudyLog(control::make_sqlite_store(folder_ / "study.db"), plan, options);
  }

  static StudyEvent add(std::uint64_t number, double x) {
    StudyEvent event;
    event.kind = EventKind::kAdd;
    event.number = number;
    event.values = {{"x", x}};
    event.reason = "because";
    return event;
  }
  static StudyEvent about(EventKind kind, std::uint64_t number) {
    StudyEvent event;
    event.kind = kind;
    event.number = number;
    return event;
  }
  static StudyEvent run(std::uint64_t number, const std::string& owner) {
    StudyEvent event = about(EventKind::kRun, number);
    event.owner = owner;
    return event;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(StudyLogTest, WhatWasCommittedIsThereForWhoOpensItNext) {
  Trial before;
  {
    StudyLog log = open();
    log.stage(add(0, 0.1 + 0.2));  // no short decimal
    log.stage(run(0, log.join()));
    ASSERT_TRUE(log.commit());
    StudyEvent report = about(EventKind::kReport, 0);
    report.resource = 1;
    report.objectives = {1.0 / 3};
    log.stage(report);
    StudyEvent finish = about(EventKind::kFinish, 0);
    finish.objectives = {1.0 / 7};
    finish.seconds = 2.5;
    log.stage(finish);
    ASSERT_TRUE(log.commit());
    log.stage(add(1, 0.5));  // never committed
    before = log.history().at(0);
  }
  StudyLog log = open();
  ASSERT_EQ(log.history().size(), 1U);
  EXPECT_EQ(log.history().at(0), before);
  EXPECT_EQ(log.history().at(0).result, std::vector<double>{1.0 / 7});
  EXPECT_EQ(log.notes(0).seconds, 2.5);
  EXPECT_EQ(log.plan().json(), small_plan().json());
}

TEST_F(StudyLogTest, OfTwoWhoCommitAtOnceTheSecondReadsAndDecidesAgain) {
  StudyLog first = open();
  StudyLog second = open();
  first.stage(add(0, 0.25));
  second.stage(add(0, 0.75));
  EXPECT_TRUE(first.commit());
  EXPECT_FALSE(second.commit());
  EXPECT_FALSE(second.staged());
  ASSERT_EQ(second.history().size(), 1U);
  EXPECT_EQ(second.history().at(0).values, (Assignment{{"x", 0.25}}));
  // What the refused commit has read is news to whoever decides.
  EXPECT_TRUE(second.catch_up());
  EXPECT_FALSE(second.catch_up());
  second.stage(add(1, 0.75));
  EXPECT_TRUE(second.commit());
  EXPECT_TRUE(first.catch_up());
  EXPECT_FALSE(first.catch_up());
  EXPECT_EQ(first.history().trials(), second.history().trials());
  EXPECT_EQ(first.history().digest(first.history().events()), second.history().digest(second.history().events()));
}

TEST_F(StudyLogTest, TrialsOfAProcessThatIsGoneAreOrphansAtOnce) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    StudyLog log = open();
    log.stage(add(0, 0.5));
    log.stage(run(0, log.join()));
    ::_exit(log.commit() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  StudyLog log = open();
  EXPECT_THAT(log.orphans(), ElementsAre(0U));
}

TEST_F(StudyLogTest, OwnTrialsAndThoseOfPeopleAreNoOrphans) {
  StudyLog log = open();
  StudyLog other = open();
  log.stage(add(0, 0.5));
  log.stage(run(0, log.join()));
  log.stage(add(1, 0.5));
  log.stage(run(1, kPerson));
  ASSERT_TRUE(log.commit());
  other.catch_up();
  EXPECT_THAT(log.orphans(), IsEmpty());
  EXPECT_THAT(other.orphans(), IsEmpty());  // the process lives
}

TEST_F(StudyLogTest, AMemberOfAnotherMachineIsLostWhenItsLeaseIsOver) {
  FakeClock clock;
  const StudyLogOptions options{.lease = std::chrono::seconds(30), .clock = &clock};
  StudyLog log = open(small_plan(), options);
  const auto store = control::make_sqlite_store(folder_ / "study.db");
  const Json elsewhere{{"host", "far"}, {"space", "0123456789abcdef"}, {"pid", 1}, {"start_time", 1}, {"count", 0}};
  store->put("members/far", elsewhere.dump());
  log.stage(add(0, 0.5));
  log.stage(run(0, "far"));
  ASSERT_TRUE(log.commit());
  EXPECT_THAT(log.orphans(), IsEmpty());
  clock.advance(std::chrono::seconds(29));
  EXPECT_THAT(log.orphans(), IsEmpty());
  store->put("members/far", elsewhere.dump());  // it beats
  EXPECT_THAT(log.orphans(), IsEmpty());
  clock.advance(std::chrono::seconds(29));
  EXPECT_THAT(log.orphans(), IsEmpty());
  clock.advance(std::chrono::seconds(2));
  EXPECT_THAT(log.orphans(), ElementsAre(0U));
}

TEST_F(StudyLogTest, AStudyIsResumedWithWhatItWasBegunWith) {
  open();
  StudyPlan other = small_plan();
  other.seed = 7;
  testing::expect_error(ErrorKind::kMismatch, "\"seed\"", [&] { open(other); });
  StudyPlan longer = small_plan();
  longer.budget.trials = 20;
  EXPECT_EQ(open(longer).plan().budget.trials, 20U);
  const StudyLog looked_at(control::make_sqlite_store(folder_ / "study.db"));
  EXPECT_EQ(looked_at.plan().budget.trials, 20U);
  // An earlier study that was read at the start may have grown since, or be gone.
  StudyPlan warmer = small_plan();
  warmer.known.push_back({{{"x", 0.5}}, {1.0}});
  EXPECT_TRUE(open(warmer).plan().known.empty());
}

TEST_F(StudyLogTest, ALogThatCannotHaveHappenedIsDamaged) {
  open();
  const auto store = control::make_sqlite_store(folder_ / "study.db");
  store->put("log/00000000", R"([{"event":"run","trial":3,"owner":"x"}])");
  testing::expect_error(ErrorKind::kDamaged, "not there", [&] { open(); });
  store->put("log/00000000",
             R"([{"event":"add","trial":0,"values":{"x":0.5}},{"event":"finish","trial":0,"objectives":[1]}])");
  testing::expect_error(ErrorKind::kDamaged, "does not follow", [&] { open(); });
  store->put("log/00000000", R"([])");
  store->put("log/00000002", R"([])");
  testing::expect_error(ErrorKind::kDamaged, "log/00000001", [&] { open(); });
}

TEST_F(StudyLogTest, WhatMembersWorkedIsAddedUp) {
  StudyLog log = open();
  StudyLog other = open();
  log.join();
  other.join();
  log.beat(std::chrono::milliseconds(1500));
  other.beat(std::chrono::milliseconds(500));
  log.beat(std::chrono::milliseconds(2500));
  EXPECT_DOUBLE_EQ(log.others_seconds(), 0.5);
  EXPECT_DOUBLE_EQ(open().others_seconds(), 3.0);
}

}  // namespace
}  // namespace muster::tuning
