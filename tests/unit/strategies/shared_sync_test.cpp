// A step by hand with one worker, then any number of workers against one: the same bits.
#include "muster/strategies/shared_sync/shared_sync.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "muster/comm/shm_backend.h"
#include "muster/strategies/host_layout.h"
#include "support/eventually.h"
#include "support/ranks.h"

namespace muster::strategies {
namespace {

constexpr std::size_t kFloats = 4;

// One tensor of four floats and one buffer, trained by SGD with lr 1 and no momentum: w' = w - sum of lanes.
class SharedSyncTest : public ::testing::Test {
 protected:
  SharedSyncTest() {
    compute::BufferLayout buffers;
    buffers.add("mean", model::Dtype::kF32, {1}, 4);
    options_ = {model::FlatLayout({{"w", {kFloats}}}), buffers, 0, 4};
    strategy_ = SharedSync{}.make(options_);
    std::vector<float> first(options_.layout.size(), 0.0F);
    for (std::size_t i = 0; i < kFloats; ++i)
      first[i] = static_cast<float>(i);
    const std::vector<std::uint64_t> updates(1);
    const std::vector<std::byte> bytes(buffers.bytes);
    strategy_->restore({first, {}, updates, bytes, {}});
  }

  // Computes every lane of the plan: lane i's gradient is `gradient`(i), its buffer i.
  template <typename Gradient>
  StepOutcome step(const data::StepPlan& plan, const Gradient& gradient) {
    strategy_->begin_step(plan);
    while (const auto lane = strategy_->claim()) {
      const compute::LaneArea area = strategy_->area(*lane);
      std::fill(area.gradient.begin(), area.gradient.end(), gradient(*lane));
      area.present[0] = 1;
      const auto buffer = static_cast<float>(*lane);
      std::memcpy(area.buffers.data(), &buffer, sizeof(buffer));
      strategy_->finish(*lane, {.report = {.loss_sum = 2.0 * static_cast<double>(plan.lanes[*lane].size()), .score = 1},
                                .wishes = {}});
    }
    const std::vector<compute::TensorRule> rules(1);
    return strategy_->commit({optimizer_.get(), 1.0, std::nullopt, rules}, Deadline::after(std::chrono::seconds(1)));
  }

  float buffer() const {
    float value;
    std::memcpy(&value, strategy_->committed().buffers.data(), sizeof(value));
    return value;
  }

  const data::BatchShape shape_{.samples = 10, .batch = 8, .lanes = 4};
  StrategyOptions options_;
  std::unique_ptr<const compute::Optimizer> optimizer_ = compute::make_optimizer(compute::Sgd{.lr = 1});
  std::unique_ptr<Strategy> strategy_;
};

TEST_F(SharedSyncTest, AStepSumsItsLanesAndMovesEverythingTogether) {
  const data::StepPlan plan = data::plan_step({}, shape_);
  const int before = strategy_->committed_version();
  const StepOutcome outcome = step(plan, [](std::size_t lane) { return static_cast<float>(lane + 1); });
  EXPECT_TRUE(outcome.applied);
  EXPECT_EQ(outcome.samples, 8U);
  EXPECT_DOUBLE_EQ(outcome.loss, 2.0);
  EXPECT_DOUBLE_EQ(outcome.score, 4.0);
  EXPECT_DOUBLE_EQ(outcome.gradient_norm, 20.0);  // four elements of 1 + 2 + 3 + 4
  const CommittedState state = strategy_->committed();
  EXPECT_EQ(state.parameters[0], -10.0F);
  EXPECT_EQ(state.parameters[3], -7.0F);
  EXPECT_EQ(state.cursor, plan.next);
  EXPECT_EQ(state.updates[0], 1U);
  EXPECT_EQ(buffer(), 1.5F);
  EXPECT_NE(strategy_->committed_version(), before);
  // What the model sees is the same numbers through memory that cannot be written.
  const std::span<const float> seen =
      strategy_->parameter_versions()[static_cast<std::size_t>(strategy_->committed_version())];
  EXPECT_NE(seen.data(), state.parameters.data());
  EXPECT_TRUE(std::ranges::equal(seen, state.parameters));
}

TEST_F(SharedSyncTest, ANonFiniteGradientAdvancesTheCursorAndKeepsTheModel) {
  const data::StepPlan plan = data::plan_step({}, shape_);
  const int before = strategy_->committed_version();
  const StepOutcome outcome =
      step(plan, [](std::size_t lane) { return lane == 2 ? std::numeric_limits<float>::quiet_NaN() : 1.0F; });
  EXPECT_FALSE(outcome.applied);
  const CommittedState state = strategy_->committed();
  EXPECT_EQ(state.parameters[3], 3.0F);
  EXPECT_EQ(state.updates[0], 0U);
  EXPECT_EQ(buffer(), 0.0F);
  EXPECT_EQ(state.cursor, plan.next);
  EXPECT_EQ(strategy_->committed_version(), before);
  // The next step applies to the kept version, not to what the skipped one left behind.
  step(data::plan_step(state.cursor, shape_), [](std::size_t) { return 1.0F; });
  EXPECT_EQ(strategy_->committed().parameters[3], 2.0F);
}

TEST_F(SharedSyncTest, AShortLastBatchUsesFewerLanes) {
  step(data::plan_step({}, shape_), [](std::size_t) { return 0.0F; });
  const data::StepPlan last = data::plan_step(strategy_->committed().cursor, shape_);
  ASSERT_EQ(last.lanes.size(), 1U);
  // What earlier steps left in the other lanes' areas does not count.
  step(last, [](std::size_t) { return 5.0F; });
  EXPECT_EQ(strategy_->committed().parameters[0], -5.0F);
  EXPECT_EQ(strategy_->committed().cursor.epoch, 1U);
}

TEST_F(SharedSyncTest, AnUnfinishedStepIsForgotten) {
  const data::StepPlan plan = data::plan_step({}, shape_);
  strategy_->begin_step(plan);
  strategy_->claim();
  std::fill_n(strategy_->area(0).gradient.begin(), kFloats, 1e30F);
  step(plan, [](std::size_t) { return 1.0F; });
  EXPECT_EQ(strategy_->committed().parameters[0], -4.0F);
}

using SharedSyncDeathTest = SharedSyncTest;

TEST_F(SharedSyncDeathTest, CommittingAnUnfinishedLaneIsABug) {
  strategy_->begin_step(data::plan_step({}, shape_));
  strategy_->claim();
  const std::vector<compute::TensorRule> rules(1);
  EXPECT_DEATH(
      strategy_->commit({optimizer_.get(), 1.0, std::nullopt, rules}, Deadline::after(std::chrono::seconds(1))),
      "not finished");
}

// --- Several workers, as threads with an shm group between them.

using muster::testing::run_ranks;

model::FlatLayout layout_of_several_blocks() {
  return model::FlatLayout({{"first", {70000}}, {"frozen", {33}, false}, {"second", {300, 100}}, {"third", {5}}});
}

struct Trained {
  std::vector<float> parameters;
  std::vector<float> momentum;
  std::vector<std::byte> buffers;
  std::vector<double> losses;
  std::vector<double> norms;

  bool operator==(const Trained&) const = default;
};

struct Training {
  int workers = 1;
  Claims claims = Claims::kStatic;
  compute::OptimizerOptions optimizer = compute::Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3};
  std::optional<double> clip_norm{};
  int slow_worker = -1;  // holds the lane that it claims until the others have finished all others
};

constexpr std::size_t kLanes = 8;
constexpr std::uint64_t kSteps = 7;

// A gradient that depends on (step, lane, position) and on the parameters, as a model's does. Lane 3 has none for the
// third tensor, and no lane has one for it in step 2.
void compute_lane(const StrategyOptions& options, const CommittedState& state, const data::StepPlan& plan,
                  std::size_t lane, const compute::LaneArea& area) {
  RandomStream random({.seed = 9, .step = plan.at.step, .lane = lane});
  for (std::size_t tensor = 0; tensor < options.layout.tensors().size(); ++tensor) {
    const model::TensorSlot& slot = options.layout.tensors()[tensor];
    const bool absent = slot.name == "third" && (lane == 3 || plan.at.step == 2);
    area.present[tensor] = slot.trainable && !absent ? 1 : 0;
    for (std::uint64_t i = slot.offset; i < slot.offset + slot.count; ++i)
      area.gradient[i] = 0.1F * state.parameters[i] + static_cast<float>(random.uniform() - 0.5);
  }
  const auto mean = static_cast<float>(random.uniform());
  std::memcpy(area.buffers.data(), &mean, sizeof mean);
}

Trained train(const Training& training) {
  const auto optimizer = compute::make_optimizer(training.optimizer);
  compute::BufferLayout buffers;
  buffers.add("mean", model::Dtype::kF32, {1}, 4);
  const comm::SharedRegion region = comm::create_shm_group_region(training.workers);
  std::vector<Trained> results(static_cast<std::size_t>(training.workers));
  std::vector<std::atomic<std::size_t>> finished(kSteps);  // lanes of each step
  std::atomic<std::size_t> slow_lanes = 0;
  run_ranks(training.workers, [&](int rank) {
    using namespace std::chrono_literals;
    comm::Group group;
    if (training.workers > 1) {
      auto mapping = comm::SharedRegion::attach(FileDescriptor(::dup(region.descriptor())));
      group = comm::Group(comm::join_shm_group(std::move(mapping), rank, Deadline::after(60s)));
    }
    StrategyOptions options{
        layout_of_several_blocks(), buffers, optimizer->slots(), kLanes, group, {}, {}, training.claims};
    const std::unique_ptr<Strategy> strategy = SharedSync{}.make(options);
    std::vector<float> first(options.layout.size());
    // Only the first worker's values count.
    for (std::size_t i = 0; i < first.size(); ++i)
      first[i] = rank == 0 ? static_cast<float>(i % 100) * 0.01F : -1;
    const std::vector<float> zeros(options.layout.size());
    const std::vector<std::uint64_t> updates(options.layout.tensors().size());
    const std::vector<std::byte> bytes(buffers.bytes);
    CommittedState initial{first, {}, updates, bytes, {}};
    for (int slot = 0; slot < options.slots; ++slot)
      initial.state[static_cast<std::size_t>(slot)] = zeros;
    strategy->restore(initial);
    std::vector<compute::TensorRule> rules;
    for (const model::TensorSlot& slot : options.layout.tensors())
      rules.push_back({compute::weight_decay(training.optimizer), true, slot.trainable});
    // What the model sees cannot be written, so it is another mapping; alone, too.
    EXPECT_NE(strategy->parameter_versions()[0].data(), strategy->committed().parameters.data());
    Trained& result = results[static_cast<std::size_t>(rank)];
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const CommittedState state = strategy->committed();
      const data::StepPlan plan = data::plan_step(state.cursor, {.samples = 100, .batch = 30, .lanes = kLanes});
      strategy->begin_step(plan);
      while (const auto lane = strategy->claim()) {
        if (rank == training.slow_worker) {
          ASSERT_TRUE(testing::eventually([&] { return finished[step] + 1 >= plan.lanes.size(); }))
              << "nobody takes the lanes that the slow worker does not get to";
          ++slow_lanes;
        }
        compute_lane(options, state, plan, *lane, strategy->area(*lane));
        strategy->finish(*lane,
                         {.report = {.loss_sum = 0.3 * static_cast<double>(*lane + step), .score = 1}, .wishes = {}});
        ++finished[step];
      }
      const StepOutcome outcome =
          strategy->commit({optimizer.get(), 0.1, training.clip_norm, rules}, Deadline::after(60s));
      result.losses.push_back(outcome.loss);
      result.norms.push_back(outcome.gradient_norm);
    }
    const CommittedState state = strategy->committed();
    result.parameters.assign(state.parameters.begin(), state.parameters.end());
    result.momentum.assign(state.state[0].begin(), state.state[0].end());
    result.buffers.assign(state.buffers.begin(), state.buffers.end());
    group.barrier();
  });
  EXPECT_LE(slow_lanes, kSteps) << "more than one a step";
  for (const Trained& result : results)
    EXPECT_TRUE(result == results.front()) << "workers differ";
  return results.front();
}

TEST(SharedSyncWorkers, AnyNumberOfThemGivesTheBitsOfOne) {
  const std::vector<compute::OptimizerOptions> optimizers{compute::Sgd{.lr = 0.1, .momentum = 0.9}, compute::Adam{},
                                                          compute::Lamb{}, compute::Lars{}};
  for (const compute::OptimizerOptions& optimizer : optimizers) {
    for (const std::optional<double> clip : {std::optional<double>(), std::optional<double>(1.0)}) {
      const Trained alone = train({.optimizer = optimizer, .clip_norm = clip});
      for (const int workers : {2, 3, 4}) {
        for (const Claims claims : {Claims::kStatic, Claims::kDynamic}) {
          const Trained together =
              train({.workers = workers, .claims = claims, .optimizer = optimizer, .clip_norm = clip});
          EXPECT_TRUE(together == alone) << workers << " workers, optimizer " << optimizer.index();
        }
      }
    }
  }
}

TEST(SharedSyncWorkers, ASlowOneComputesFewerLanesAndTheBitsStay) {
  const Trained alone = train({});
  EXPECT_TRUE(train({.workers = 3, .claims = Claims::kDynamic, .slow_worker = 1}) == alone);
}

TEST(SharedSyncWorkers, SlicesCoverEveryBlockOnceAndAreOfLikeSize) {
  const model::FlatLayout layout = layout_of_several_blocks();
  for (const std::size_t members : {1UL, 2UL, 3UL, 4UL, 7UL, 64UL}) {
    std::size_t next = 0;
    for (std::size_t index = 0; index < members; ++index) {
      const compute::BlockRange slice = slice_of(layout, index, members);
      EXPECT_EQ(slice.first, next);
      EXPECT_GE(slice.last, slice.first);
      next = slice.last;
      std::uint64_t floats = 0;
      for (std::size_t block = slice.first; block < slice.last; ++block)
        floats += layout.blocks()[block].size();
      EXPECT_LE(floats, layout.size() / members + model::kBlockFloats) << index << " of " << members;
    }
    EXPECT_EQ(next, layout.blocks().size());
  }
}

TEST(SharedSyncWorkers, AWorkerTakesItsOwnLanesFirstAndThenTheLastOnesOfOthers) {
  using namespace std::chrono_literals;
  const comm::SharedRegion region = comm::create_shm_group_region(2);
  std::atomic<bool> claimed = false;
  std::atomic<bool> helped = false;
  std::array<std::vector<std::size_t>, 2> lanes;
  run_ranks(2, [&](int rank) {
    auto mapping = comm::SharedRegion::attach(FileDescriptor(::dup(region.descriptor())));
    comm::Group group(comm::join_shm_group(std::move(mapping), rank, Deadline::after(60s)));
    const std::unique_ptr<Strategy> strategy =
        SharedSync{}.make({layout_of_several_blocks(), {}, 0, kLanes, group, {}, {}, Claims::kDynamic});
    strategy->begin_step(data::plan_step({}, {.samples = 100, .batch = 30, .lanes = kLanes}));
    const Deadline deadline = Deadline::after(60s);
    const auto wait_for = [&](const std::atomic<bool>& flag) {
      EXPECT_TRUE(testing::eventually([&] { return flag.load(); }, deadline));
    };
    // The second worker is busy with its first lane until the first one finds nothing more to do.
    if (rank == 0) wait_for(claimed);
    while (const auto lane = strategy->claim()) {
      lanes[static_cast<std::size_t>(rank)].push_back(*lane);
      claimed = true;
      if (rank == 1) wait_for(helped);
      strategy->finish(*lane, {});
    }
    if (rank == 0) helped = true;
    group.barrier();
  });
  EXPECT_EQ(lanes[0], (std::vector<std::size_t>{0, 2, 4, 6, 7, 5, 3}));
  EXPECT_EQ(lanes[1], (std::vector<std::size_t>{1}));
}

}  // namespace
}  // namespace muster::strategies
