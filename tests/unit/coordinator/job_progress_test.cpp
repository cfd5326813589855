// Progress from reports that are made up, at times that are given.
#include "muster/coordinator/job_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using control::WorkerState;

launch::SupervisorReport report(std::uint64_t step, const control::LeaderNote& note) {
  launch::SupervisorReport report;
  report.generation = 2;
  report.step = step;
  report.note = note.to_json().dump();
  return report;
}

control::JobStatus status_of(const JobProgress& progress) {
  control::JobStatus status;
  progress.describe(status);
  return status;
}

TEST(JobProgress, TellsTheRateOfTheLastFewSeconds) {
  FakeClock clock;
  JobProgress progress;
  const control::LeaderNote note{.total_steps = 1000, .steps_per_epoch = 100, .batch = 8};
  std::uint64_t step = 0;
  const auto train_for = [&](std::chrono::seconds time, std::uint64_t steps_per_second) {
    for (int turn = 0; turn < time / 100ms; ++turn) {
      clock.advance(100ms);
      progress.see(report(step += steps_per_second / 10, note), clock.now());
    }
  };
  progress.see(report(0, note), clock.now());
  EXPECT_EQ(status_of(progress).samples_per_second, 0) << "one report says nothing of a rate";
  train_for(20s, 10);
  EXPECT_DOUBLE_EQ(status_of(progress).samples_per_second, 80);
  train_for(5s, 20);
  EXPECT_DOUBLE_EQ(status_of(progress).samples_per_second, 160) << "what was before is forgotten";
  EXPECT_EQ(status_of(progress).epoch, 4U);
  train_for(20s, 0);
  EXPECT_EQ(status_of(progress).samples_per_second, 0);
}

TEST(JobProgress, TheLeaderCountsStepsWhereTheArenaDoesNot) {
  JobProgress progress;
  progress.see(report(0, {.step = 17}), {});
  EXPECT_EQ(progress.step(), 17U);
  progress.see(report(30, {.step = 29}), {});
  EXPECT_EQ(progress.step(), 30U) << "a note may be older";
}

TEST(JobProgress, TrainsOnceThereIsAGenerationOrALeaderThatSaysSo) {
  JobProgress progress;
  EXPECT_FALSE(progress.trains());
  launch::SupervisorReport begins;
  progress.see(begins, {});
  EXPECT_FALSE(progress.trains());
  begins.note = "anything";
  progress.see(begins, {});
  EXPECT_TRUE(progress.trains());
  EXPECT_EQ(progress.leader(), control::LeaderNote()) << "what is no note of ours says nothing";
}

TEST(JobProgress, AMemberThatIsGoneIsShownAsThat) {
  JobProgress progress;
  launch::SupervisorReport seen = report(3, {});
  seen.workers = {{.rank = 0, .process = this_process(), .state = WorkerState::kRunning},
                  {.rank = 1, .process = {2'000'000'000, 1}, .state = WorkerState::kRunning},
                  {.rank = 2, .process = {2'000'000'000, 1}, .state = WorkerState::kStarting}};
  progress.see(seen, {});
  const control::JobStatus status = status_of(progress);
  EXPECT_EQ(status.members[0].state, WorkerState::kRunning);
  EXPECT_EQ(status.members[0].step, 4U);
  EXPECT_EQ(status.members[1].state, WorkerState::kGone);
  EXPECT_EQ(status.members[2].state, WorkerState::kStarting);
  EXPECT_EQ(progress.membership().members[1].state, WorkerState::kRunning) << "the record has what was decided";
}

}  // namespace
}  // namespace muster::coordinator
