// Whose state a tuner lets go of: of trials that have ended, unless somebody may still begin with it.
#include "muster/cli/tune/process_trials.h"

#include <chrono>
#include <set>

#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/control/store.h"
#include "muster/tuning/schedulers/population.h"
#include "support/sandbox.h"

namespace muster::cli {
namespace {

using tuning::EventKind;
using tuning::StudyEvent;

class NoSubject : public TrialSubject {
 public:
  using TrialSubject::TrialSubject;
  bool can_pause() const override { return true; }
  std::vector<std::string> prepare(const tuning::Trial&, const std::vector<tuning::Trial>&, std::uint64_t) override {
    return {};
  }
  std::filesystem::path rows_file(std::uint64_t number) const override { return folder(number) / "rows"; }
  RowMeaning meaning(const Json&) const override { return {}; }
  bool ends_silently() const override { return true; }
  std::string failure(std::uint64_t) const override { return {}; }
  void drop_state(std::uint64_t number) const override { dropped.insert(number); }

  mutable std::set<std::uint64_t> dropped;
};

class ProcessTrialsTest : public ::testing::Test {
 protected:
  tuning::StudyLog open(const tuning::SchedulerChoice& scheduler, const tuning::StudyLogOptions& options = {}) {
    tuning::StudyPlan plan;
    plan.space = tuning::Space({tuning::Parameter::uniform("x", 0, 1)});
    plan.max_resource = 4;
    plan.scheduler = scheduler;
    return {control::make_sqlite_store(folder_ / "study.db"), plan, options};
  }
  static void happens(tuning::StudyLog& log, EventKind kind, std::uint64_t number, std::uint64_t resource = 0) {
    StudyEvent event;
    event.kind = kind;
    event.number = number;
    event.group = number;
    event.resource = resource;
    event.objectives = {1.0};
    log.stage(event);
  }
  static void begin_three(tuning::StudyLog& log) {
    for (std::uint64_t number = 0; number < 3; ++number) {
      happens(log, EventKind::kAdd, number);
      happens(log, EventKind::kRun, number);
    }
  }

  const testing::TemporaryFolder folder_;
  NoSubject subject_{folder_.path()};
};

// Who comes later to where a trial ended may be told to copy it from there, also when others have stopped it meanwhile.
TEST_F(ProcessTrialsTest, WhatAPopulationMayCopyStaysUntilAllHavePassedIt) {
  tuning::StudyLog log = open(tuning::PopulationBased{.population = 3, .interval = 1});
  ProcessTrials trials(subject_, log, {}, false, folder_.path());
  begin_three(log);
  happens(log, EventKind::kReport, 0, 2);
  happens(log, EventKind::kStop, 0);
  trials.ended(log.history().at(0));
  EXPECT_TRUE(subject_.dropped.empty());
  happens(log, EventKind::kReport, 1, 3);
  happens(log, EventKind::kReport, 2, 2);  // which is where trial 0 was
  happens(log, EventKind::kStop, 2);
  trials.ended(log.history().at(2));
  // The one that is left is past both.
  EXPECT_EQ(subject_.dropped, (std::set<std::uint64_t>{0, 2}));
}

// A tuner was killed, its trial trained to its end by itself, and the next tuner reads that: the trial took the time
// until its last row.
TEST_F(ProcessTrialsTest, TheTimeUnderATunerThatWasKilledCounts) {
  class Done final : public NoSubject {
   public:
    using NoSubject::NoSubject;
    RowMeaning meaning(const Json&) const override { return {.finished = true}; }
  };
  Done subject(folder_.path());
  FakeClock clock;
  clock.advance(std::chrono::hours(24));  // 1970 itself means that nothing is known
  tuning::StudyLog log = open(tuning::scheduler_named("none"), {.clock = &clock});
  ProcessTrials trials(subject, log, {}, false, folder_.path());
  happens(log, EventKind::kAdd, 0);
  happens(log, EventKind::kRun, 0);
  const auto last_row = std::chrono::file_clock::from_sys(clock.wall() + std::chrono::seconds(30));
  clock.advance(std::chrono::seconds(100));
  happens(log, EventKind::kLose, 0);
  happens(log, EventKind::kRun, 0);
  std::filesystem::create_directories(subject.folder(0));
  testing::spill(subject.rows_file(0), "{}\n");
  std::filesystem::last_write_time(subject.rows_file(0), last_row);
  trials.start(log.history().at(0), 0);
  const std::vector<tuning::TrialNews> news = trials.wait(std::chrono::milliseconds(0));
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].what, tuning::TrialNews::What::kFinished);
  EXPECT_NEAR(news[0].seconds, 30, 5);  // starts are known in whole seconds, and the test takes a moment
  // Of the trial's next part it is no more.
  trials.start(log.history().at(0), 0);
  EXPECT_LT(trials.wait(std::chrono::milliseconds(0)).at(0).seconds, 5);
}

// What no validation tells is a mistake of the study as long as no trial has told it.
TEST_F(ProcessTrialsTest, AFigureThatTheFirstTrialDoesNotTellEndsTheStudy) {
  class Silent final : public NoSubject {
   public:
    using NoSubject::NoSubject;
    RowMeaning meaning(const Json&) const override {
      return {.hopeless = "does not tell it", .lacks = {"auc"}, .tells = {"accuracy", "loss"}};
    }
  };
  Silent subject(folder_.path());
  tuning::StudyLog log = open(tuning::scheduler_named("none"));
  ProcessTrials trials(subject, log, {}, false, folder_.path(), "study.toml:3");
  begin_three(log);
  std::filesystem::create_directories(subject.folder(0));
  testing::spill(subject.rows_file(0), "{}\n");
  try {
    trials.start(log.history().at(0), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_EQ(error.where(), "study.toml:3");
    EXPECT_NE(error.message().find("\"auc\""), std::string::npos) << error.what();
  }
  // Where another one has, it is this trial's own affair.
  happens(log, EventKind::kReport, 1, 1);
  trials.start(log.history().at(0), 0);
  EXPECT_EQ(trials.wait(std::chrono::milliseconds(0)).at(0).what, tuning::TrialNews::What::kFailed);
}

TEST_F(ProcessTrialsTest, WithoutCopiesAnEndIsAnEnd) {
  tuning::StudyLog log = open(tuning::scheduler_named("asha"));
  ProcessTrials trials(subject_, log, {}, false, folder_.path());
  begin_three(log);
  happens(log, EventKind::kReport, 0, 2);
  happens(log, EventKind::kStop, 0);
  trials.ended(log.history().at(0));
  EXPECT_EQ(subject_.dropped, (std::set<std::uint64_t>{0}));
}

}  // namespace
}  // namespace muster::cli
