// Lives of a run with losses and resumptions, each proved by the ledger's own check.
#include "muster/trainer/run_ledger.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/ledger_check.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

constexpr data::BatchShape kShape{.samples = 10, .batch = 4, .lanes = 2};  // 3 steps an epoch

// One life of a run: workers that may be replaced.
struct Life {
  RunLedgerOptions options;

  std::unique_ptr<RunLedger> worker(int number, std::uint64_t generation, std::uint64_t committed) const {
    RunLedgerOptions its = options;
    its.worker = number;
    auto ledger = std::make_unique<RunLedger>(its);
    ledger->enter(generation, committed);
    return ledger;
  }
};

Life life_in(const testing::TemporaryFolder& folder, std::optional<std::uint64_t> resumed_at = {}) {
  return {{.folder = folder.path(),
           .shape = kShape,
           .first_generation = data::next_ledger_generation(folder.path()),
           .resumed_at = resumed_at}};
}

// Samples in order are as good as any.
void load(RunLedger& ledger, std::uint64_t step, std::size_t lane) {
  const data::StepPlan plan = data::plan_step(data::cursor_at_step(step, kShape), kShape);
  std::vector<std::uint64_t> ids;
  for (std::uint64_t id = plan.lanes[lane].begin; id < plan.lanes[lane].end; ++id)
    ids.push_back(id);
  ledger.lane_loaded(plan.at, lane, ids);
}

void make_step(RunLedger& ledger, std::uint64_t step) {
  for (std::size_t lane = 0; lane < data::plan_step(data::cursor_at_step(step, kShape), kShape).lanes.size(); ++lane)
    load(ledger, step, lane);
  ledger.steps_committed(step + 1);
}

TEST(RunLedger, ShortLastStepsAreWhole) {
  const testing::TemporaryFolder folder;
  const auto worker = life_in(folder).worker(0, 0, 0);
  for (std::uint64_t step = 0; step < 6; ++step)
    make_step(*worker, step);
  const data::LedgerReport report = data::check_ledger(folder.path(), 6);
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.whole_epochs, 2u);
}

TEST(RunLedger, NamesTheSamplesThatWereSkipped) {
  class Half final : public data::Dataset {
   public:
    std::uint64_t size() const override { return kShape.samples; }
    const data::SampleSpec& spec() const override { return spec_; }
    std::int64_t read(std::uint64_t id, std::span<float>) const override {
      if (id == 3 || id == 8) throw Error(ErrorKind::kDamaged, "is bad");
      return 0;
    }

   private:
    data::SampleSpec spec_{.shape = {1}, .classes = 2};
  };
  const testing::TemporaryFolder folder;
  Life life = life_in(folder);
  const auto tolerant = std::make_shared<data::Tolerant>(
      std::make_shared<Half>(),
      std::make_shared<data::BadSamples>(data::BadSampleOptions{.on_bad_sample = data::OnBadSample::kSkip}));
  life.options.tolerant = tolerant;
  const auto worker = life.worker(0, 0, 0);
  for (std::uint64_t id = 0; id < kShape.samples; ++id)
    tolerant->read(id, {});
  for (std::uint64_t step = 0; step < 3; ++step)
    make_step(*worker, step);
  const data::LedgerReport report = data::check_ledger(folder.path(), 3);
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.skipped_ids, (std::vector<std::uint64_t>{3, 8}));
}

TEST(RunLedger, WhoeverComesRecordsTheStepThatItFindsCommitted) {
  const testing::TemporaryFolder folder;
  const Life life = life_in(folder);
  auto first = life.worker(0, 1, 0);
  make_step(*first, 0);
  load(*first, 1, 0);
  load(*first, 1, 1);
  first.reset();  // the step was committed, and it died before it could say so
  EXPECT_EQ(data::check_ledger(folder.path()).steps, 1u);
  const auto second = life.worker(1, 2, 2);
  const data::LedgerReport report = data::check_ledger(folder.path(), 2);
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.steps, 2u);
}

TEST(RunLedger, AStepThatIsKnownOnlyAfterALossIsRecordedThen) {
  const testing::TemporaryFolder folder;
  const auto worker = life_in(folder).worker(0, 1, 0);
  load(*worker, 0, 0);
  load(*worker, 0, 1);
  worker->enter(2, 1);
  EXPECT_EQ(data::check_ledger(folder.path()).steps, 1u);
  worker->enter(3, 1);  // another loss: nothing new
  EXPECT_EQ(data::check_ledger(folder.path()).violation, std::nullopt);
}

TEST(RunLedger, WhoComesLaterInAResumedLifeMakesNothingOfItVoid) {
  const testing::TemporaryFolder folder;
  {
    const auto worker = life_in(folder).worker(0, 1, 0);
    for (std::uint64_t step = 0; step < 3; ++step)
      make_step(*worker, step);
  }
  const Life second = life_in(folder, 1);
  const auto survivor = second.worker(0, 1, 1);
  make_step(*survivor, 1);
  survivor->enter(2, 2);
  const auto newcomer = second.worker(1, 2, 2);
  make_step(*newcomer, 2);
  const data::LedgerReport report = data::check_ledger(folder.path(), 3);
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.steps, 3u);
  EXPECT_EQ(report.resumptions, 1u);
  EXPECT_EQ(report.repeated_lanes, 0u);
}

TEST(RunLedger, WorkersThatGoApartAreExactWhereTheyHaveMet) {
  const testing::TemporaryFolder folder;
  Life life = life_in(folder);
  life.options.apart = true;
  const auto fast = life.worker(0, 0, 0);
  const auto slow = life.worker(1, 0, 0);
  load(*fast, 0, 0);
  load(*fast, 1, 0);
  load(*slow, 0, 1);
  EXPECT_EQ(data::check_ledger(folder.path()).violation, std::nullopt);  // of step 1 the slow one's lane is to come
  EXPECT_EQ(data::check_ledger(folder.path()).steps, 0u);
  load(*slow, 1, 1);
  fast->steps_committed(2);
  const data::LedgerReport report = data::check_ledger(folder.path());
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.steps, 2u);
}

}  // namespace
}  // namespace muster::trainer
