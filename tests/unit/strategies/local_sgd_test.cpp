// The model of these tests: sample s wants parameter j at target(s, j), with the loss curvature(j) / 2 * (distance)^2.
// Its optimum and the whole path of gradient descent are closed formulas.
#include "muster/strategies/local_sgd/local_sgd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/strategies/strategy_traits.h"
#include "replica_training.h"
#include "support/errors.h"

namespace muster::strategies {
namespace {

using std::chrono::seconds;
using testing::Network;
using testing::train;
using testing::Trained;
using testing::Training;

constexpr std::size_t kWidth = 40;

double curvature(std::size_t j) {
  return 0.5 + 0.05 * static_cast<double>(j % 7);
}
double target(std::uint64_t sample, std::size_t j) {
  return std::sin(static_cast<double>(sample * 31 + j * 7));
}
double mean_target(std::uint64_t samples, std::size_t j) {
  double sum = 0;
  for (std::uint64_t sample = 0; sample < samples; ++sample)
    sum += target(sample, j);
  return sum / static_cast<double>(samples);
}
double first_value(std::size_t position) {
  return static_cast<double>(position % 100) * 0.01;  // as testing::start
}

// Tensor "rare" has a gradient in the last lane only.
void compute_lane(const StrategyOptions& options, const CommittedState& state, const data::StepPlan& plan,
                  std::size_t lane, const compute::LaneArea& area) {
  const data::LaneRange range = plan.lanes[lane];
  for (std::size_t tensor = 0; tensor < options.layout.tensors().size(); ++tensor) {
    const model::TensorSlot& slot = options.layout.tensors()[tensor];
    area.present[tensor] = slot.trainable && (slot.name != "rare" || lane + 1 == plan.lanes.size()) ? 1 : 0;
    for (std::size_t j = 0; j < slot.count; ++j) {
      double sum = 0;
      for (std::uint64_t sample = range.begin; sample < range.end; ++sample)
        sum += curvature(j) * (static_cast<double>(state.parameters[slot.offset + j]) - target(sample, j));
      area.gradient[slot.offset + j] = static_cast<float>(sum / static_cast<double>(plan.samples()));
    }
  }
  const auto mean = static_cast<float>(lane);
  std::memcpy(area.buffers.data(), &mean, sizeof mean);
}

Training training_of(int workers, const LocalSgd& options) {
  return {.strategy = options,
          .workers = workers,
          .layout = model::FlatLayout({{"w", {kWidth}}, {"frozen", {3}, false}}),
          .shape = {.samples = 10, .batch = 10, .lanes = 4},
          .steps = 12,
          .optimizer = compute::Sgd{.lr = 0.2},
          .work = compute_lane};
}

// Which of a worker's steps ended with all workers alike, and whether they really were.
class Meetings {
 public:
  auto observer() {
    return [this](int rank, const Strategy& strategy, const StepOutcome& outcome) {
      const std::scoped_lock lock(mutex_);
      flags_[rank].push_back(outcome.synchronized);
      stops_[rank].push_back(outcome.stop);
      bits_[strategy.committed().cursor.step].push_back(testing::bits_of(strategy.committed()));
    };
  }
  // The same flags on all workers, and states that are alike exactly when they say so.
  std::vector<bool> check() {
    for (const auto& [rank, flags] : flags_)
      EXPECT_EQ(flags, flags_[0]) << rank;
    for (std::size_t step = 0; step < flags_[0].size(); ++step) {
      const auto& states = bits_[step + 1];
      const bool alike =
          std::ranges::all_of(states, [&](const std::vector<std::byte>& state) { return state == states.front(); });
      EXPECT_EQ(alike, flags_[0][step]) << "after step " << step + 1;
    }
    return flags_[0];
  }
  std::map<int, std::vector<bool>> stops_;

 private:
  std::mutex mutex_;
  std::map<int, std::vector<bool>> flags_;
  std::map<std::uint64_t, std::vector<std::vector<std::byte>>> bits_;
};

TEST(LocalSgd, FollowsTheClosedPathToTheOptimum) {
  // Between averages every worker runs towards its own mean: distance * (1 - lr a)^period; the average of that is the
  // distance to the mean of all, whatever the period.
  for (const int workers : {1, 2, 3, 4}) {
    for (const std::int64_t period : {2, 5}) {
      Training training = training_of(workers, {.period = period});
      training.steps = 60;
      const Trained trained = train(training).front();
      training.steps = 10;
      const Trained early = train(training).front();
      for (std::size_t j = 0; j < kWidth; ++j) {
        const std::size_t at = training.layout.tensors()[1].offset + j;
        ASSERT_EQ(training.layout.tensors()[1].name, "w");
        const double optimum = mean_target(10, j);
        const double left = std::pow(1 - 0.2 * curvature(j), 10);
        ASSERT_NEAR(early.parameters[at], optimum + left * (first_value(at) - optimum), 1e-5) << workers << " " << j;
        ASSERT_NEAR(trained.parameters[at], optimum, 5e-3) << workers << " workers";
      }
    }
  }
}

TEST(LocalSgd, OuterRateAndMomentumFollowTheirRecurrence) {
  const LocalSgd options{.period = 3, .outer_lr = 0.8, .outer_momentum = 0.5};
  for (const int workers : {1, 3}) {
    const Training training = training_of(workers, options);
    const std::vector<Trained> trained = train(training);
    for (std::size_t j = 0; j < kWidth; ++j) {
      const std::size_t at = training.layout.tensors()[1].offset + j;
      const double optimum = mean_target(10, j);
      const double kept = std::pow(1 - 0.2 * curvature(j), 3);
      double distance = first_value(at) - optimum;
      double velocity = 0;
      for (int average = 0; average < 4; ++average) {
        velocity = 0.5 * velocity + (kept - 1) * distance;
        distance += 0.8 * velocity;
      }
      for (const Trained& worker : trained)
        ASSERT_NEAR(worker.parameters[at], optimum + distance, 1e-5) << workers << " workers, " << j;
    }
  }
}

TEST(LocalSgd, PeriodOneOfPlainSgdIsAllReduce) {
  for (const int workers : {1, 2, 3, 4}) {
    Training training = training_of(workers, {.period = 1});
    training.layout = model::FlatLayout({{"w", {kWidth}}, {"rare", {5}}, {"frozen", {3}, false}});
    training.shape = {.samples = 19, .batch = 8, .lanes = 4};  // the third step has 2 lanes: some workers have none
    const std::vector<Trained> local = train(training);
    training.strategy = AllReduce{};
    const Trained reduced = train(training).front();
    for (const Trained& worker : local) {
      EXPECT_EQ(worker.bits, local.front().bits);
      for (std::size_t step = 0; step < reduced.losses.size(); ++step)
        EXPECT_NEAR(worker.losses[step], reduced.losses[step], 1e-12) << "an average tells everybody's loss";
      for (std::size_t i = 0; i < reduced.parameters.size(); ++i)
        ASSERT_NEAR(worker.parameters[i], reduced.parameters[i], 2e-6) << workers << " workers, " << i;
    }
  }
}

TEST(LocalSgd, AWorkerAloneIsSharedSyncBitByBit) {
  Training training = training_of(1, {.period = 3});
  training.optimizer = compute::Adam{};
  training.clip_norm = 0.5;
  const Trained local = train(training).front();
  training.strategy = SharedSync{};
  EXPECT_TRUE(train(training).front() == local);
}

TEST(LocalSgd, WorkersAreAlikeAfterEachAverageAndOnlyThen) {
  Meetings meetings;
  Training training = training_of(3, {.period = 4});
  training.optimizer = compute::Adam{};
  training.steps = 9;
  training.observe = meetings.observer();
  const std::vector<Trained> first = train(training);
  EXPECT_EQ(meetings.check(), (std::vector<bool>{false, false, false, true, false, false, false, true, false}));
  training.observe = {};
  EXPECT_TRUE(train(training) == first) << "not deterministic";
}

TEST(LocalSgd, APeriodMayBeAnEpoch) {
  Meetings meetings;
  Training training = training_of(2, {.period = 0});
  training.shape = {.samples = 10, .batch = 4, .lanes = 4};
  training.steps = 7;
  training.observe = meetings.observer();
  train(training);
  EXPECT_EQ(meetings.check(), (std::vector<bool>{false, false, true, false, false, true, false}));
}

TEST(LocalSgd, PostLocalAveragesEveryStepAtFirstWithoutOuterMomentum) {
  Meetings meetings;
  Training training = training_of(2, {.period = 4, .averaged_steps = 3, .outer_lr = 0.5, .outer_momentum = 0.9});
  training.steps = 8;
  training.observe = meetings.observer();
  train(training);
  EXPECT_EQ(meetings.check(), (std::vector<bool>{true, true, true, true, false, false, false, true}));

  training.observe = {};
  training.steps = 3;
  const Trained post = train(training).front();
  training.strategy = LocalSgd{.period = 1};
  EXPECT_EQ(train(training).front().bits, post.bits);
}

TEST(LocalSgd, TheOptimizersStateIsAveragedOrKept) {
  Training training = training_of(2, {.period = 3});
  training.optimizer = compute::Sgd{.lr = 0.1, .momentum = 0.9};
  training.steps = 3;
  const std::vector<Trained> averaged = train(training);
  EXPECT_EQ(averaged[0].bits, averaged[1].bits);
  training.strategy = LocalSgd{.period = 3, .average_state = false};
  const std::vector<Trained> kept = train(training);
  EXPECT_EQ(kept[0].parameters, kept[1].parameters);
  EXPECT_EQ(kept[0].parameters, averaged[0].parameters);
  EXPECT_NE(kept[0].bits, kept[1].bits);
}

TEST(LocalSgd, ARequestToStopIsAgreedOnAtTheAverage) {
  Meetings meetings;
  Training training = training_of(2, {.period = 3});
  training.steps = 4;
  training.stop_rank = 1;
  training.observe = meetings.observer();
  train(training);
  for (const int rank : {0, 1})
    EXPECT_EQ(meetings.stops_[rank], (std::vector<bool>{false, false, true, false})) << rank;
}

TEST(LocalSgd, AGradientThatIsNotFiniteLeavesItsWorkerOutOfTheAverage) {
  Training training = training_of(2, {.period = 1});
  training.steps = 1;
  training.work = [](const StrategyOptions& options, const CommittedState& state, const data::StepPlan& plan,
                     std::size_t lane, const compute::LaneArea& area) {
    compute_lane(options, state, plan, lane, area);
    if (lane == 3) area.gradient[options.layout.tensors()[1].offset] = std::numeric_limits<float>::quiet_NaN();
  };
  const std::vector<Trained> trained = train(training);
  for (const Trained& worker : trained) {
    EXPECT_EQ(worker.applied, std::vector<bool>{false});
    for (std::size_t j = 0; j < kWidth; ++j) {
      const std::size_t at = training.layout.tensors()[1].offset + j;
      // Worker 0 has the samples 0 to 5.
      const double step = 0.2 * curvature(j) * (first_value(at) - mean_target(6, j));
      ASSERT_NEAR(worker.parameters[at], first_value(at) - step, 1e-6) << j;
    }
  }
}

TEST(LocalSgd, GlooGivesTheBitsOfSharedMemory) {
  if (!comm::gloo_available()) GTEST_SKIP() << "this build has no Gloo";
  Training training = training_of(3, {.period = 3, .outer_momentum = 0.5});
  training.optimizer = compute::Adam{};
  const std::vector<Trained> shm = train(training);
  training.network = Network::kGloo;
  EXPECT_TRUE(train(training) == shm);
}

TEST(LocalSgd, SynchronizeAveragesAtOnceAndOnlyWhatIsApart) {
  const Training training = training_of(2, {.period = 100});
  const auto optimizer = compute::make_optimizer(training.optimizer);
  std::array<std::vector<std::byte>, 2> before;
  std::array<std::vector<std::byte>, 2> after;
  testing::run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    StrategyOptions options{training.layout, testing::one_mean_and_one_count(), 0, 4, group};
    const auto strategy = training.strategy.make(options);
    testing::start(*strategy, options, rank);
    const data::StepPlan plan = data::plan_step({}, training.shape);
    strategy->begin_step(plan);
    while (const auto lane = strategy->claim()) {
      compute_lane(options, strategy->committed(), plan, *lane, strategy->area(*lane));
      strategy->finish(*lane, {});
    }
    const std::vector<compute::TensorRule> rules{{.trainable = false}, {}};  // backward order: "frozen" first
    strategy->commit({optimizer.get(), 0.2, std::nullopt, rules}, Deadline::after(seconds(30)));
    const auto worker = static_cast<std::size_t>(rank);
    before[worker] = testing::bits_of(strategy->committed());
    strategy->synchronize(Deadline::after(seconds(30)));
    after[worker] = testing::bits_of(strategy->committed());
    EXPECT_EQ(strategy->committed().cursor, plan.next);
    const int version = strategy->committed_version();
    strategy->synchronize(Deadline::after(seconds(30)));
    EXPECT_EQ(strategy->committed_version(), version) << "nothing was apart";
    // Lanes 0 and 1 (6 samples) say 0 and 1, lanes 2 and 3 (4 samples) 2 and 3.
    float mean;
    std::memcpy(&mean, strategy->committed().buffers.data(), sizeof mean);
    EXPECT_NEAR(mean, 0.6 * 0.5 + 0.4 * 2.5, 1e-6);
    group.barrier();
  });
  EXPECT_NE(before[0], before[1]);
  EXPECT_EQ(after[0], after[1]);
}

TEST(LocalSgd, ALostWorkerEndsTheAverageAndLeavesTheCommittedVersion) {
  const Training training = training_of(2, {.period = 1});
  const auto optimizer = compute::make_optimizer(training.optimizer);
  testing::run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    StrategyOptions options{training.layout, testing::one_mean_and_one_count(), 0, 4, group};
    const auto strategy = training.strategy.make(options);
    testing::start(*strategy, options, rank);
    const std::vector<std::byte> before = testing::bits_of(strategy->committed());
    if (rank == 1) {
      group.abort(1, "the test wants it so");
      return;
    }
    const data::StepPlan plan = data::plan_step({}, training.shape);
    strategy->begin_step(plan);
    while (const auto lane = strategy->claim()) {
      compute_lane(options, strategy->committed(), plan, *lane, strategy->area(*lane));
      strategy->finish(*lane, {});
    }
    const std::vector<compute::TensorRule> rules{{.trainable = false}, {}};
    try {
      strategy->commit({optimizer.get(), 0.2, std::nullopt, rules}, Deadline::after(seconds(30)));
      ADD_FAILURE() << "committed without the other worker";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    }
    EXPECT_EQ(testing::bits_of(strategy->committed()), before);
  });
}

// Ends at an average, as every checkpoint does, and goes on in strategies that were made anew.
TEST(LocalSgd, TheOuterMomentumGoesOnWithTheCommittedState) {
  const Training training = training_of(2, {.period = 2, .outer_lr = 0.7, .outer_momentum = 0.6});
  const auto optimizer = compute::make_optimizer(training.optimizer);
  const std::vector<compute::TensorRule> rules{{.trainable = false}, {}};  // backward order: "frozen" first
  testing::run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    const StrategyOptions options{training.layout, testing::one_mean_and_one_count(), 0, 4, group};
    const auto train = [&](Strategy& strategy, std::uint64_t steps) {
      while (strategy.committed().cursor.step < steps) {
        const data::StepPlan plan = data::plan_step(strategy.committed().cursor, training.shape);
        strategy.begin_step(plan);
        while (const auto lane = strategy.claim()) {
          compute_lane(options, strategy.committed(), plan, *lane, strategy.area(*lane));
          strategy.finish(*lane, {});
        }
        strategy.commit({optimizer.get(), 0.2, std::nullopt, rules}, Deadline::after(seconds(30)));
      }
    };
    const auto straight = training.strategy.make(options);
    testing::start(*straight, options, rank);
    train(*straight, 4);
    const CommittedState middle = straight->committed();
    ASSERT_EQ(middle.extra.size(), 1U);
    EXPECT_EQ(middle.extra[0].name, "outer_momentum");
    const auto resumed = training.strategy.make(options);
    CommittedState given = middle;
    const std::vector<std::byte> nothing(middle.extra[0].bytes.size());
    if (rank == 1) given.extra[0].bytes = nothing;  // what the first worker has counts
    resumed->restore(given);
    // One that has just come has none of it.
    const auto joined = training.strategy.make(options);
    CommittedState own = middle;
    const std::vector<float> zeros(options.layout.size());
    if (rank == 1) {
      own.parameters = zeros;
      own.extra.clear();
    }
    joined->restore(own);
    EXPECT_TRUE(std::ranges::equal(joined->committed().extra_part("outer_momentum"), middle.extra[0].bytes));
    given.extra[0].bytes = std::span(nothing).first(8);
    testing::expect_error(ErrorKind::kMismatch, "outer_momentum",
                          [&] { training.strategy.make(options)->restore(given); });
    const auto forgetful = training.strategy.make(options);
    given.extra.clear();
    forgetful->restore(given);
    for (Strategy* strategy : {straight.get(), resumed.get(), joined.get(), forgetful.get()})
      train(*strategy, 8);
    EXPECT_EQ(testing::bits_of(joined->committed()), testing::bits_of(straight->committed()));
    EXPECT_EQ(testing::bits_of(resumed->committed()), testing::bits_of(straight->committed()));
    EXPECT_NE(testing::bits_of(forgetful->committed()), testing::bits_of(straight->committed()));
    group.barrier();
  });
}

TEST(LocalSgd, OptionsOutOfTheirRangeAreRefusedByName) {
  const auto refused = [](const LocalSgd& local) -> std::string {
    StrategyOptions options{model::FlatLayout({{"w", {3}}}), {}, 0, 1};
    try {
      local.make(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.what();
    }
    return "";
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double lr : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()})
    EXPECT_NE(refused({.outer_lr = lr}).find("outer_lr"), std::string::npos) << lr;
  for (const double momentum : {-0.1, 1.0, nan})
    EXPECT_NE(refused({.outer_momentum = momentum}).find("outer_momentum"), std::string::npos) << momentum;
  EXPECT_EQ(refused({.outer_lr = 0.7, .outer_momentum = 0.99}), "");
}

}  // namespace
}  // namespace muster::strategies
