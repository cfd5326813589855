// Whose state a tuner lets go of: of trials that have ended, unless somebody may still begin with it.
#include "muster/cli/tune/process_trials.h"

#include <set>

#include <gtest/gtest.h>

#include "muster/control/store.h"
#include "muster/tuning/schedulers/population.h"
#include "support/sandbox.h"

namespace muster::cli {
namespace {

using tuning::EventKind;
using tuning::StudyEvent;

class NoSubject final : public TrialSubject {
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
  tuning::StudyLog open(const tuning::SchedulerChoice& scheduler) {
    tuning::StudyPlan plan;
    plan.space = tuning::Space({tuning::Parameter::uniform("x", 0, 1)});
    plan.max_resource = 4;
    plan.scheduler = scheduler;
    return {control::make_sqlite_store(folder_ / "study.db"), plan};
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
