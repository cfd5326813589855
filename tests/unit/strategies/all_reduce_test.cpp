// Workers as threads against shared_sync: equal bits where shares are aligned, close and repeatable elsewhere.
#include "muster/strategies/all_reduce/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/base/random.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/replica/bucket_reducer.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/strategies/strategy_traits.h"
#include "replica_training.h"

namespace muster::strategies {
namespace {

using std::chrono::seconds;
using testing::Network;
using testing::run_group;
using testing::train;
using testing::Trained;
using testing::Training;

model::FlatLayout layout_of_several_blocks() {
  return model::FlatLayout(
      {{"first", {40000}}, {"frozen", {33}, false}, {"second", {300, 100}}, {"third", {5}}, {"rare", {7}}});
}

// A gradient that depends on (step, lane, position) and on the parameters, as a model's does. Lane 3 has none for
// "third" and no lane has one in step 2; only lane 5 of step 1 has one for "rare", of negative zeros; in step 5 one
// lane is not finite.
void compute_lane(const StrategyOptions& options, const CommittedState& state, const data::StepPlan& plan,
                  std::size_t lane, const compute::LaneArea& area) {
  RandomStream random({.seed = 9, .step = plan.at.step, .lane = lane});
  for (std::size_t tensor = 0; tensor < options.layout.tensors().size(); ++tensor) {
    const model::TensorSlot& slot = options.layout.tensors()[tensor];
    const bool rare = slot.name == "rare";
    const bool absent = (slot.name == "third" && (lane == 3 || plan.at.step == 2)) ||
                        (rare && (lane != plan.lanes.size() - 1 || plan.at.step != 1));
    area.present[tensor] = slot.trainable && !absent ? 1 : 0;
    for (std::uint64_t i = slot.offset; i < slot.offset + slot.count; ++i)
      area.gradient[i] = rare ? -0.0F : 0.1F * state.parameters[i] + static_cast<float>(random.uniform() - 0.5);
    if (slot.name == "second" && plan.at.step == 5 && lane == 1)
      area.gradient[slot.offset] = std::numeric_limits<float>::infinity();
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const auto mean = static_cast<float>(random.uniform());
    std::memcpy(area.buffers.data() + i * sizeof mean, &mean, sizeof mean);
  }
  const auto count = static_cast<std::int64_t>(plan.at.step * 100 + lane);
  std::memcpy(area.buffers.data() + options.buffers.slots[1].offset, &count, sizeof count);
}

Training training_of(int workers, std::uint64_t lanes) {
  // The fourth step is short: 5 lanes of 8.
  return {.workers = workers,
          .layout = layout_of_several_blocks(),
          .shape = {.samples = 108, .batch = 30, .lanes = lanes},
          .work = compute_lane};
}

Trained train_shared(Training training) {
  training.strategy = SharedSync{};
  training.workers = 1;
  return train(training).front();
}

Trained train_alike(const Training& training) {
  const std::vector<Trained> results = train(training);
  for (const Trained& result : results)
    EXPECT_TRUE(result == results.front()) << "replicas differ";
  return results.front();
}

TEST(AllReduceWorkers, PowersOfTwoGiveTheBitsOfSharedSync) {
  struct Case {
    compute::OptimizerOptions optimizer;
    std::optional<double> clip_norm;
  };
  const std::vector<Case> cases{{compute::Sgd{.lr = 0.1, .momentum = 0.9}, {}},
                                {compute::Sgd{.lr = 0.1, .momentum = 0.9}, 1.0},
                                {compute::Adam{}, 1.0},
                                {compute::Lamb{}, 1.0},
                                {compute::Lars{}, 1.0}};
  for (const Case& each : cases) {
    Training training = training_of(1, 8);
    training.optimizer = each.optimizer;
    training.clip_norm = each.clip_norm;
    const Trained shared = train_shared(training);
    ASSERT_EQ(std::ranges::count(shared.applied, false), 1);
    ASSERT_GT(shared.norms.front(), 1) << "clipping would do nothing";
    for (const int workers : {1, 2, 4}) {
      training.workers = workers;
      EXPECT_TRUE(train_alike(training) == shared) << workers << " workers, optimizer " << each.optimizer.index();
    }
  }
}

TEST(AllReduceWorkers, AlignedSharesOfAnyNumberOfWorkersGiveTheBitsOfSharedSync) {
  // One lane a worker, two lanes for each of three, and more workers than lanes.
  for (const auto& [workers, lanes] : std::vector<std::pair<int, std::uint64_t>>{{4, 4}, {3, 6}, {3, 3}, {4, 2}}) {
    const Training training = training_of(workers, lanes);
    EXPECT_TRUE(train_alike(training) == train_shared(training)) << workers << " workers, " << lanes << " lanes";
  }
}

TEST(AllReduceWorkers, OtherSharesAreDeterministicAndClose) {
  Training training = training_of(3, 8);
  training.optimizer = compute::Adam{};
  const Trained shared = train_shared(training);
  const Trained three = train_alike(training);
  EXPECT_TRUE(train_alike(training) == three);
  EXPECT_FALSE(three == shared) << "three workers are no subtrees: this test proves nothing";
  ASSERT_EQ(three.applied, shared.applied);
  for (std::size_t i = 0; i < shared.parameters.size(); ++i)
    ASSERT_NEAR(three.parameters[i], shared.parameters[i], 1e-4) << i;
  for (std::size_t step = 0; step < shared.losses.size(); ++step)
    EXPECT_EQ(three.losses[step], shared.losses[step]);
}

TEST(AllReduceWorkers, GlooGivesTheBitsOfSharedMemory) {
  if (!comm::gloo_available()) GTEST_SKIP() << "this build has no Gloo";
  for (const int workers : {2, 3}) {
    Training training = training_of(workers, 8);
    const Trained shm = train_alike(training);
    training.network = Network::kGloo;
    EXPECT_TRUE(train_alike(training) == shm) << workers << " workers";
  }
}

TEST(AllReduceWorkers, OverlapChangesNothing) {
  std::vector<Network> networks{Network::kShm};
  if (comm::gloo_available()) networks.push_back(Network::kGloo);
  for (const Network network : networks) {
    for (const auto& [workers, lanes] : std::vector<std::pair<int, std::uint64_t>>{{1, 4}, {2, 8}, {3, 6}, {4, 2}}) {
      Training training = training_of(workers, lanes);
      training.network = network;
      training.strategy = AllReduce{.bucket_kb = 64};
      const Trained plain = train_alike(training);
      training.strategy = AllReduce{.bucket_kb = 64, .overlap = true};
      EXPECT_TRUE(train_alike(training) == plain) << workers << " workers, " << lanes << " lanes";
    }
  }
}

TEST(AllReduceWorkers, AStepWhoseGradientsAreOnTheirWayCannotBeLeft) {
  run_group(2, Network::kShm, [](int, comm::Group group) {
    StrategyOptions options{model::FlatLayout({{"w", {4}}, {"v", {4}}}), {}, 0, 2, group};
    const auto strategy = AllReduce{.overlap = true}.make(options);
    testing::start(*strategy, options, 0);
    const data::StepPlan plan = data::plan_step({}, {.samples = 8, .batch = 8, .lanes = 2});
    // Nothing is on its way yet: forgotten as ever.
    strategy->begin_step(plan);
    strategy->begin_step(plan);
    const std::size_t lane = strategy->claim().value();
    ASSERT_TRUE(strategy->uses_ready_gradients(lane));
    for (const std::size_t tensor : {0U, 1U}) {
      strategy->area(lane).present[tensor] = 1;
      strategy->gradient_ready(lane, tensor);
    }
    const Deadline deadline = Deadline::after(seconds(60));
    for (bool refused = false; !refused;) {
      ASSERT_FALSE(deadline.passed());
      try {
        strategy->begin_step(plan);  // until the thread has taken the first bucket
        strategy->gradient_ready(lane, 0);
        strategy->gradient_ready(lane, 1);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
        refused = true;
      }
    }
    group.barrier();  // who leaves now takes the others with it
  });
}

TEST(AllReduceWorkers, TheSizeOfBucketsChangesNothing) {
  Training training = training_of(2, 8);
  const Trained usual = train_alike(training);
  for (const std::int64_t size : {0, 97, 1 << 20}) {
    training.strategy = AllReduce{.bucket_kb = size};
    EXPECT_TRUE(train_alike(training) == usual) << size;
  }
}

// Sums, then turns the sign: the model must go uphill.
class UphillCodec final : public GradientCodec {
 public:
  void all_reduce(comm::Group& group, std::size_t bucket, std::span<float> values, const Deadline& deadline) override {
    group.all_reduce(values, comm::Reduction::kSum, deadline);
    for (float& value : values)
      value = -value;
    buckets_.push_back(bucket);
  }
  void commit() override { ++commits_; }

  std::vector<std::size_t> buckets_;
  int commits_ = 0;
};

TEST(AllReduceWorkers, ACodecTakesThePlaceOfTheSum) {
  const model::FlatLayout layout({{"w", {20000}}});  // two blocks
  const auto optimizer = compute::make_optimizer(compute::Sgd{.lr = 1});
  run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    StrategyOptions options{layout, {}, 0, 2, group};
    const auto codec = std::make_shared<UphillCodec>();
    const auto strategy = AllReduce{.bucket_kb = 0, .codec = codec}.make(options);
    testing::start(*strategy, options, rank);
    const float before = strategy->committed().parameters[3];
    strategy->begin_step(data::plan_step({}, {.samples = 8, .batch = 4, .lanes = 2}));
    while (const auto lane = strategy->claim()) {
      std::ranges::fill(strategy->area(*lane).gradient, 2.0F);
      strategy->area(*lane).present[0] = 1;
      strategy->finish(*lane, {});
    }
    const std::vector<compute::TensorRule> rules(1);
    strategy->commit({optimizer.get(), 1.0, std::nullopt, rules}, Deadline::after(seconds(30)));
    EXPECT_EQ(strategy->committed().parameters[3], before + 4);
    EXPECT_EQ(codec->buckets_, (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(codec->commits_, 1);
    group.barrier();
  });
}

TEST(AllReduceWorkers, ALostWorkerEndsTheStepAndLeavesTheCommittedVersion) {
  const auto optimizer = compute::make_optimizer(compute::Sgd{.lr = 1});
  run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    const StrategyOptions options{model::FlatLayout({{"w", {100}}}), {}, 0, 2, group};
    const auto strategy = AllReduce{}.make(options);
    testing::start(*strategy, options, rank);
    const std::vector<std::byte> before = testing::bits_of(strategy->committed());
    strategy->begin_step(data::plan_step({}, {.samples = 8, .batch = 4, .lanes = 2}));
    const auto lane = strategy->claim();
    ASSERT_EQ(lane, static_cast<std::size_t>(rank));
    if (rank == 1) {
      group.abort(1, "the test wants it so");
      return;
    }
    strategy->area(*lane).present[0] = 1;
    strategy->finish(*lane, {});
    const std::vector<compute::TensorRule> rules(1);
    try {
      strategy->commit({optimizer.get(), 1.0, std::nullopt, rules}, Deadline::after(seconds(30)));
      ADD_FAILURE() << "committed without the other worker";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    }
    EXPECT_EQ(testing::bits_of(strategy->committed()), before);
    EXPECT_EQ(strategy->committed_version(), 0);
  });
}

TEST(AllReduceAlone, AnUnfinishedStepIsForgottenAndTheModelSeesAReadOnlyView) {
  const auto optimizer = compute::make_optimizer(compute::Sgd{.lr = 1});
  const StrategyOptions options{model::FlatLayout({{"w", {4}}}), {}, 0, 1};
  const auto strategy = AllReduce{}.make(options);
  testing::start(*strategy, options, 0);
  const data::StepPlan plan = data::plan_step({}, {.samples = 8, .batch = 4, .lanes = 1});
  const std::vector<compute::TensorRule> rules(1);
  strategy->begin_step(plan);
  strategy->claim();
  std::ranges::fill(strategy->area(0).gradient, 1e30F);
  strategy->begin_step(plan);
  const auto lane = strategy->claim();
  ASSERT_EQ(lane, 0U);
  EXPECT_EQ(strategy->claim(), 0U) << "a lane that is held is given again";
  std::ranges::fill(strategy->area(0).gradient, 1.0F);
  strategy->area(0).present[0] = 1;
  strategy->finish(0, {{.loss_sum = 6, .score = 3}, {.stop = true}});
  EXPECT_EQ(strategy->claim(), std::nullopt);
  const StepOutcome outcome =
      strategy->commit({optimizer.get(), 1.0, std::nullopt, rules}, Deadline::after(seconds(1)));
  EXPECT_DOUBLE_EQ(outcome.loss, 1.5);
  EXPECT_DOUBLE_EQ(outcome.score, 3);
  EXPECT_TRUE(outcome.stop);
  const CommittedState state = strategy->committed();
  EXPECT_EQ(state.parameters[2], 0.02F - 1.0F);
  EXPECT_EQ(state.updates[0], 1U);
  EXPECT_EQ(state.cursor, plan.next);
  const std::span<const float> seen =
      strategy->parameter_versions()[static_cast<std::size_t>(strategy->committed_version())];
  EXPECT_NE(seen.data(), state.parameters.data());
  EXPECT_TRUE(std::ranges::equal(seen, state.parameters));
}

TEST(AllReduceDeathTest, CommittingAnUnfinishedLaneIsABug) {
  const auto optimizer = compute::make_optimizer(compute::Sgd{.lr = 1});
  const StrategyOptions options{model::FlatLayout({{"w", {4}}}), {}, 0, 2};
  const auto strategy = AllReduce{}.make(options);
  strategy->begin_step(data::plan_step({}, {.samples = 8, .batch = 4, .lanes = 2}));
  strategy->claim();
  strategy->finish(0, {});
  const std::vector<compute::TensorRule> rules(1);
  EXPECT_DEATH(strategy->commit({optimizer.get(), 1.0, std::nullopt, rules}, Deadline::after(seconds(1))),
               "not finished");
}

// As every strategy does: what one worker wants or knows all learn with the same step, with local_sgd at the average.
TEST(Wishes, OfOneWorkerReachAllInTheSameStep) {
  for (const StrategyChoice& strategy :
       {StrategyChoice(SharedSync{}), StrategyChoice(AllReduce{}), StrategyChoice(LocalSgd{.period = 2})}) {
    Training training;
    training.strategy = strategy;
    training.workers = 2;
    training.layout = model::FlatLayout({{"w", {5}}});
    training.shape = {16, 8, 4};
    training.steps = 3;
    training.work = testing::compute_lane;
    training.stop_rank = 1;
    Mutex mutex;
    std::map<int, std::vector<std::pair<bool, std::uint64_t>>> seen;
    training.observe = [&](int rank, const Strategy&, const StepOutcome& outcome) {
      const MutexLock lock(mutex);
      seen[rank].emplace_back(outcome.stop, outcome.change);
    };
    testing::train(training);
    const std::pair<bool, std::uint64_t> none(false, 0);
    const std::pair<bool, std::uint64_t> told(true, 7);
    const auto expected = strategy.traits().goes_apart ? std::vector{none, told, none} : std::vector{told, none, none};
    for (const int rank : {0, 1})
      EXPECT_EQ(seen[rank], expected) << strategy.name() << ", worker " << rank;
  }
}

}  // namespace
}  // namespace muster::strategies
