// Sums checked by hand for one model of round numbers; running jobs are held against the estimate by muster bench
// memory.
#include "muster/trainer/memory_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kMega = 1'000'000;

// 100 MB of parameters, 1 MB of buffers, momentum; 10 MB of activations a sample.
MemoryFigures figures() {
  MemoryFigures figures;
  figures.workers = 2;
  figures.batch = 64;
  figures.lanes = 4;
  figures.slots = 1;
  figures.model = {100 * kMega, kMega, {5 * kMega, 10 * kMega}, {0, kMega}};
  figures.evaluation_samples = 20;
  figures.sample_bytes = 1000;
  figures.prefetch = 4;
  figures.data_bytes = 30 * kMega;
  figures.process_bytes = 60 * kMega;
  figures.launcher_bytes = 40 * kMega;
  figures.library_bytes = 150 * kMega;
  return figures;
}

std::uint64_t item(const MemoryEstimate& estimate, const std::string& part_of_name) {
  for (const MemoryItem& item : estimate.items)
    if (item.name.find(part_of_name) != std::string::npos) return item.bytes;
  return 0;
}

TEST(MemoryEstimateTest, WorkersThatShareTheStateHoldItOnce) {
  const MemoryEstimate estimate = estimate_memory(figures());
  EXPECT_EQ(item(estimate, "two versions"), 2 * (200 + 1) * kMega);
  EXPECT_EQ(item(estimate, "gradients"), 4 * 101 * kMega) << "of each lane";
  EXPECT_EQ(item(estimate, "activations"), 2 * (5 + 16 * 10) * kMega) << "of a lane's samples, in each worker";
  EXPECT_EQ(item(estimate, "lost between tensors in the heap"), (5 + 16 * 10) * kMega) << "half as much";
  EXPECT_EQ(item(estimate, "read ahead"), 2 * ((4 + 2) * 16 + 4 * 20) * 1000u);
  EXPECT_EQ(item(estimate, "checkpoint"), 201 * kMega);
  EXPECT_EQ(item(estimate, "data set"), 60 * kMega);
  EXPECT_EQ(item(estimate, "each process"), 120 * kMega);
  EXPECT_EQ(item(estimate, "shared"), 150 * kMega);
  EXPECT_EQ(item(estimate, "starts the workers"), 40 * kMega);
  std::uint64_t sum = 0;
  for (const MemoryItem& item : estimate.items)
    sum += item.bytes;
  EXPECT_EQ(estimate.total(), sum);
  EXPECT_EQ(estimate.to_json().at("total").get<std::uint64_t>(), sum);
}

TEST(MemoryEstimateTest, WorkersWithStateOfTheirOwnHoldItOnceEach) {
  MemoryFigures of = figures();
  of.strategy = strategies::AllReduce{};
  EXPECT_EQ(item(estimate_memory(of), "two versions"), 2 * 2 * 201 * kMega);
  EXPECT_EQ(item(estimate_memory(of), "gradients"), 4 * 101 * kMega);
  EXPECT_EQ(item(estimate_memory(of), "exchange"), 2 * 100 * kMega) << "the sum";
  of.lanes = 2;
  EXPECT_EQ(item(estimate_memory(of), "gradients"), 2 * kMega) << "one lane's gradient is where the sum will be";
  of.strategy = strategies::LocalSgd{};
  EXPECT_EQ(item(estimate_memory(of), "exchange"), 2 * 2 * 100 * kMega) << "and the last average";
  of.strategy = strategies::LocalSgd{.outer_momentum = 0.5};
  EXPECT_EQ(item(estimate_memory(of), "exchange"), 3 * 2 * 100 * kMega);
}

TEST(MemoryEstimateTest, OneWorkerIsStartedByAProcessToo) {
  MemoryFigures of = figures();
  of.workers = 1;
  EXPECT_EQ(item(estimate_memory(of), "starts the workers"), of.launcher_bytes);
}

TEST(MemoryEstimateTest, AnEvaluationMayTakeMoreThanTraining) {
  MemoryFigures of = figures();
  of.evaluation_samples = 250;
  of.model.forward = {0, 100 * kMega};
  EXPECT_EQ(item(estimate_memory(of), "activations"), 2 * 32 * 100 * kMega) << "32 samples: lanes have fewer";
  of.batch = 4 * 40;
  EXPECT_EQ(item(estimate_memory(of), "activations"), 2 * 40 * 100 * kMega) << "as many as a lane has";
}

TEST(MemoryEstimateTest, TheStartMayTakeMoreThanTheSteps) {
  MemoryFigures of = figures();
  of.workers = 8;
  of.lanes = 8;
  of.batch = 8;
  of.model.step = {};
  of.model.forward = {};
  // 8 workers have 3 x 100 MB for a moment; training holds 8 gradients and the copy for a checkpoint.
  of.strategy = strategies::LocalSgd{};
  of.model.buffer_bytes = 0;
  const MemoryEstimate estimate = estimate_memory(of);
  EXPECT_EQ(item(estimate, "first weights"), 8 * 300 * kMega);
  EXPECT_EQ(item(estimate, "gradients"), 0u) << "not at that moment";
}

TEST(MemoryEstimateTest, WhereStateIsSharedAModelForEachWorkerIsAllThatTheStartTakes) {
  MemoryFigures of = figures();
  of.workers = 40;
  of.lanes = 1;
  of.batch = 1;
  of.model.step = {};
  of.model.forward = {};
  EXPECT_EQ(item(estimate_memory(of), "first weights"), 40 * 100 * kMega);
  of.hollow = true;
  EXPECT_EQ(item(estimate_memory(of), "first weights"), 0u) << "it is made where it stays";
  EXPECT_GT(item(estimate_memory(of), "gradients"), 0u);
}

TEST(MemoryEstimateTest, ALaneThatDoesNotDivideTheBatchIsTheLargestOne) {
  MemoryFigures of = figures();
  of.batch = 65;
  EXPECT_EQ(item(estimate_memory(of), "activations"), 2 * (5 + 17 * 10) * kMega);
}

// Half the batch saves 240 MB, a quarter of it 360; one worker less 378; no momentum 300.
TEST(MemoryEstimateTest, OnlyChangesThatMakeItFitAreNamed) {
  const std::uint64_t total = estimate_memory(figures()).total();
  EXPECT_THAT(changes_that_fit(figures(), total - 1),
              ElementsAre(HasSubstr("data.batch = 32 ("), HasSubstr("parallel.workers = 1 ("),
                          HasSubstr("sgd with momentum = 0 (")))
      << "more lanes cost more gradients than they save";
  EXPECT_THAT(changes_that_fit(figures(), total - 290 * kMega),
              ElementsAre(HasSubstr("data.batch = 16 ("), HasSubstr("parallel.workers = 1 ("),
                          HasSubstr("sgd with momentum = 0 (")));
  EXPECT_THAT(changes_that_fit(figures(), 100 * kMega), IsEmpty());
}

TEST(MemoryEstimateTest, MoreLanesAreNamedWhereActivationsOutweighGradients) {
  MemoryFigures of = figures();
  of.model.parameter_bytes = kMega;
  of.slots = 2;
  EXPECT_THAT(changes_that_fit(of, estimate_memory(of).total() - 50 * kMega), Contains(HasSubstr("job.lanes = 8 (")));
}

TEST(MemoryEstimateTest, ARefusalHasTheNumbersAndWhatToDo) {
  MemoryFigures of = figures();
  of.may_recompute = true;
  const Error error = memory_refusal(of, {1540 * kMega, "1.5 GB available on this machine"});
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("1.5 GB available on this machine"), HasSubstr("activations"),
                                     HasSubstr("330.0 MB"), HasSubstr("404.0 MB")));
  EXPECT_THAT(error.remedy(), AllOf(HasSubstr("parallel.workers = 1"), HasSubstr("model.recompute = true"),
                                    HasSubstr("--ignore-memory")));
  of.may_recompute = false;
  of.unmeasured = "it takes other samples";
  const Error hopeless = memory_refusal(of, {kMega, "1.0 MB available on this machine"});
  EXPECT_THAT(hopeless.message(), HasSubstr("unknown"));
  EXPECT_THAT(hopeless.remedy(), AllOf(HasSubstr("smaller model"), Not(HasSubstr("recompute"))));
}

TEST(MemoryEstimateTest, TheLineForPeopleBeginsWithTheLargest) {
  const std::string line = describe(estimate_memory(figures()), 2);
  EXPECT_THAT(line, HasSubstr("for 2 workers: gradients 404.0 MB; parameters"));
}

}  // namespace
}  // namespace muster::trainer
