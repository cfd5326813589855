// What a run counts over all its lives: a run that was resumed decides as one that went on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/base/log.h"
#include "muster/trainer/job.h"
#include "muster/trainer/trainer.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

TEST(RunLives, StepsThatWereSkippedInARowCountOnWhereARunIsResumed) {
  const testing::TemporaryFolder folder;
  // The first step makes the weights so large that no later one has a finite gradient. Four steps an epoch.
  const ResolvedJob job = parse_job(
      fmt::format("[job]\nname = \"large\"\nepochs = 50\nruns = \"{}\"\n"
                  "[data]\nsource = \"synthetic\"\nshape = [8]\nclasses = 3\nsamples = 96\ntest_samples = 12\n"
                  "batch = 24\n[model]\nname = \"mlp\"\nhidden = [16]\n[optimizer]\nlr = 1e30\n"
                  "[checkpoint]\nevery_epochs = 1000\n",
                  folder.path().string()),
      "job.toml");
  TrainingObserver silent;
  Log log(LogLevel::kOff);
  TrainingOptions first;
  first.until_epoch = 5;
  const TrainingResult paused = train(job, first, silent, log);
  EXPECT_EQ(paused.end, TrainingResult::End::kPaused);
  EXPECT_EQ(paused.steps, 20U);
  EXPECT_EQ(paused.skipped, 19U);

  TrainingOptions second;
  second.resume = true;
  second.run = paused.run;
  const Error error = testing::error_of([&] { train(job, second, silent, log); });
  EXPECT_EQ(error.kind(), ErrorKind::kCompute);
  EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("100 steps in a row"),
                                             ::testing::HasSubstr("step 101"), ::testing::HasSubstr("optimizer.lr")));
}

}  // namespace
}  // namespace muster::trainer
