// The strategy parameter_server with workers and servers as threads of one process.
#include "muster/strategies/parameter_server/parameter_server.h"

#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/random.h"
#include "muster/comm/arena.h"
#include "muster/comm/arena_address.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/consistency.h"
#include "muster/strategies/parameter_server/server_plan.h"
#include "muster/strategies/parameter_server/shard.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/strategies/strategy_traits.h"
#include "support/errors.h"
#include "unit/strategies/replica_training.h"

namespace muster::strategies {
namespace {

using testing::compute_lane;
using ::testing::HasSubstr;
using testing::Trained;
using testing::Training;

// With chunks that are as small as can be.
Training small(int workers, ParameterServer chosen) {
  chosen.chunk_kb = 64;
  Training training;
  training.strategy = chosen;
  training.workers = workers;
  training.layout =
      model::FlatLayout({{"first", {70000}}, {"second", {300, 100}}, {"frozen", {9}, false}, {"last", {5}}});
  training.shape = {.samples = 100, .batch = 30, .lanes = 5};
  training.work = compute_lane;
  training.synchronized = true;
  return training;
}

Trained by_shared_sync(Training training) {
  training.strategy = SharedSync{};
  training.workers = 1;
  return testing::train(training).front();
}

// Without what stands between tensors, which means nothing.
std::vector<float> tensors_of(const Training& training, const Trained& trained) {
  std::vector<float> values;
  for (const model::TensorSlot& slot : training.layout.tensors()) {
    const auto first = trained.parameters.begin() + static_cast<std::ptrdiff_t>(slot.offset);
    values.insert(values.end(), first, first + static_cast<std::ptrdiff_t>(slot.count));
  }
  return values;
}

ParameterServer only(Consistency consistency) {
  return {.consistency = std::string(to_string(consistency))};
}

class Bsp : public ::testing::TestWithParam<compute::OptimizerOptions> {};

TEST_P(Bsp, GivesTheBitsOfSharedSyncWithAnyNumberOfWorkersAndServers) {
  for (const int workers : {1, 2, 3}) {
    Training training = small(workers, only(Consistency::kBsp));
    training.optimizer = GetParam();
    training.clip_norm = 50;
    const Trained expected = by_shared_sync(training);
    const std::vector<Trained> results = testing::train(training);
    EXPECT_TRUE(results.front() == expected) << workers << " workers";
    for (const Trained& result : results)
      EXPECT_EQ(tensors_of(training, result), tensors_of(training, expected)) << workers << " workers";
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Bsp,
                         ::testing::Values(compute::OptimizerOptions(compute::Sgd{.lr = 0.1, .momentum = 0.9}),
                                           compute::OptimizerOptions(compute::Adam{}),
                                           compute::OptimizerOptions(compute::Lamb{}),
                                           compute::OptimizerOptions(compute::Lars{})));

TEST(ParameterServerBsp, CopiesAndDynamicClaimsChangeNoBit) {
  Training training = small(3, {.copies = 2});
  const Trained expected = by_shared_sync(training);
  training.claims = Claims::kDynamic;
  EXPECT_TRUE(testing::train(training).front() == expected);
}

TEST(ParameterServerBsp, AGradientThatIsNotFiniteSkipsTheStepEverywhere) {
  Training training = small(2, only(Consistency::kBsp));
  training.work = [](const auto& options, const auto& state, const auto& plan, std::size_t lane, const auto& area) {
    compute_lane(options, state, plan, lane, area);
    if (plan.at.step == 2 && lane == 4) area.gradient[100] = std::numeric_limits<float>::quiet_NaN();
  };
  const Trained expected = by_shared_sync(training);
  EXPECT_FALSE(expected.applied[2]);
  const Trained result = testing::train(training).front();
  EXPECT_EQ(result.bits, expected.bits);
  EXPECT_EQ(result.losses, expected.losses);
  EXPECT_EQ(result.applied, expected.applied);
}

TEST(ParameterServerBsp, ATensorWithoutAGradientIsLeftAlone) {
  Training training = small(2, only(Consistency::kBsp));
  training.work = [](const auto& options, const auto& state, const auto& plan, std::size_t lane, const auto& area) {
    compute_lane(options, state, plan, lane, area);
    area.present[2] = plan.at.step % 2 == 0 && lane == 3 ? 1 : 0;  // "second": tensors lie in backward order
  };
  EXPECT_TRUE(testing::train(training).front() == by_shared_sync(training));
}

// With plain SGD and gradients that do not depend on the parameters the order of updates does not matter: the sum of
// all lanes of all steps is what a single process comes to.
void constant_lane(const StrategyOptions& options, const CommittedState&, const data::StepPlan& plan, std::size_t lane,
                   const compute::LaneArea& area) {
  testing::mark_trainable(options, area);
  // Powers of two: sums of them are exact in any order.
  const float value = std::ldexp(1.0F, static_cast<int>((plan.at.step * 5 + lane) % 8));
  std::fill_n(area.gradient.begin(), options.layout.size(), value);
}

class Asynchronous : public ::testing::TestWithParam<Consistency> {};

TEST_P(Asynchronous, EveryLaneIsAppliedExactlyOnce) {
  Training training = small(3, only(GetParam()));
  training.optimizer = compute::Sgd{.lr = 0.5};
  training.work = constant_lane;
  training.steps = 20;
  double sum = 0;
  data::Cursor cursor;
  for (std::uint64_t step = 0; step < training.steps; ++step) {
    const data::StepPlan plan = data::plan_step(cursor, training.shape);
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane)
      sum += std::ldexp(1.0, static_cast<int>((step * 5 + lane) % 8));
    cursor = plan.next;
  }
  for (const Trained& result : testing::train(training))
    EXPECT_EQ(result.parameters[0], static_cast<float>(-0.5 * sum));
}

TEST_P(Asynchronous, OfOneWorkerItIsSgdOverTheLanes) {
  Training training = small(1, only(GetParam()));
  const Trained result = testing::train(training).front();
  // One lane a step, with the same lanes one after the other, is the same training.
  std::vector<float> expected(training.layout.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = static_cast<float>(i % 100) * 0.01F;
  std::vector<float> velocity(expected.size());
  data::Cursor cursor;
  for (std::uint64_t step = 0; step < training.steps; ++step) {
    const data::StepPlan plan = data::plan_step(cursor, training.shape);
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      RandomStream random({.seed = 5, .step = step, .lane = lane});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const float gradient = 0.1F * expected[i] + static_cast<float>(random.uniform() - 0.5);
        velocity[i] = 0.9F * velocity[i] + gradient;
        expected[i] -= 0.1F * velocity[i];
      }
    }
    cursor = plan.next;
  }
  const model::TensorSlot& first = training.layout.tensors().back();
  ASSERT_EQ(first.name, "first");
  // The first step of momentum is the gradient itself, as in torch; the slots begin at zero here as there.
  for (std::uint64_t i = first.offset; i < first.offset + first.count; ++i)
    ASSERT_NEAR(result.parameters[i], expected[i], 1e-4) << i;
}

TEST_P(Asynchronous, ALaneThatIsNotFiniteIsLeftOutAndNobodyWaitsForIt) {
  Training training = small(2, only(GetParam()));
  training.optimizer = compute::Sgd{.lr = 0.5};
  training.work = [](const auto& options, const auto& state, const auto& plan, std::size_t lane, const auto& area) {
    constant_lane(options, state, plan, lane, area);
    if (plan.at.step == 2 && lane == 3) area.gradient[100] = std::numeric_limits<float>::quiet_NaN();
  };
  double sum = 0;
  data::Cursor cursor;
  for (std::uint64_t step = 0; step < training.steps; ++step) {
    const data::StepPlan plan = data::plan_step(cursor, training.shape);
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane)
      sum += step == 2 && lane == 3 ? 0 : std::ldexp(1.0, static_cast<int>((step * 5 + lane) % 8));
    cursor = plan.next;
  }
  for (const Trained& result : testing::train(training))
    EXPECT_EQ(result.parameters[0], static_cast<float>(-0.5 * sum));
}

INSTANTIATE_TEST_SUITE_P(Modes, Asynchronous, ::testing::Values(Consistency::kAsp, Consistency::kSsp),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(ParameterServerPhases, AspThenBspAppliesEveryLaneOnce) {
  Training training = small(2, {.consistency = "asp:4, bsp"});
  training.optimizer = compute::Sgd{.lr = 0.5};
  training.work = constant_lane;
  const float by_one = by_shared_sync(training).parameters[0];
  for (const Trained& result : testing::train(training))
    EXPECT_EQ(result.parameters[0], by_one);
}

TEST(ParameterServerBackup, AStepIsTheMeanOfTheLanesThatCame) {
  Training training = small(2, {.consistency = "backup", .backups = 2});
  training.optimizer = compute::Sgd{.lr = 1};
  training.steps = 6;
  training.shape = {.samples = 60, .batch = 10, .lanes = 5};
  // Every lane has the same mean gradient, weighted by its share: whichever three of five come, the mean is 1.
  training.work = [](const auto& options, const auto&, const auto& plan, std::size_t lane, const auto& area) {
    testing::mark_trainable(options, area);
    std::fill_n(area.gradient.begin(), options.layout.size(), static_cast<float>(plan.weight(lane)));
  };
  for (const Trained& result : testing::train(training))
    EXPECT_NEAR(result.parameters[0], -6, 1e-5);
}

// With asp it is chance who gets a lane of the first step: book_test has that.
TEST(ParameterServerStop, AWishReachesAllInTheSameStep) {
  Training training = small(3, only(Consistency::kBsp));
  training.stop_rank = 1;
  std::mutex mutex;
  std::map<int, std::uint64_t> first;
  training.observe = [&](int rank, const Strategy& strategy, const StepOutcome& outcome) {
    const std::scoped_lock lock(mutex);
    if (outcome.stop) first.try_emplace(rank, strategy.committed().cursor.step);
  };
  testing::train(training);
  EXPECT_EQ(first, (std::map<int, std::uint64_t>{{0, 1}, {1, 1}, {2, 1}}));
}

// One chunk of one server: an update that was computed three versions ago has a third of the rate.
TEST(StalenessRate, AnUpdateThatComesLateHasAShareOfTheRate) {
  for (const bool aware : {false, true}) {
    ServerPlan plan;
    plan.layout = model::FlatLayout({{"w", {16}}});
    plan.rules.resize(1);
    plan.optimizer = compute::Sgd{.lr = 1};
    plan.staleness_rate = aware;
    comm::SharedRegion memory = comm::SharedRegion::create(Shard::memory_bytes(plan), {.shared = false});
    Shard shard(plan, memory.bytes());
    std::vector<float> zeros(16);
    std::vector<std::uint64_t> updates(1);
    shard.write(0, Shard::first_state(pack_chunk(plan.chunks()[0], {}, {zeros, {}, updates}, 0)));
    const std::vector<float> ones(16, 1.0F);
    PushLaneRequest push{.lanes = 1, .rate = 1};
    for (push.step = 0; push.step < 4; ++push.step) {
      push.pulled_version = push.step == 3 ? 0 : push.step;  // the last one is three versions old
      EXPECT_EQ(shard.push(0, push, std::as_bytes(std::span(ones))), Status::kDone);
    }
    EXPECT_FLOAT_EQ(shard.view(0).parameters[0], aware ? -3 - 1.0F / 3 : -4.0F);
  }
}

// A worker with a supervisor, which is the test.
class SupervisedWorker : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kStep = 5;

  static Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }
  static StrategyOptions supervised_options() {
    StrategyOptions options{model::FlatLayout({{"w", {4}}}), {}, 0, 2};
    options.rules.resize(1);
    options.supervised = Supervised{.store = comm::make_memory_store(), .founder = true};
    return options;
  }

  SupervisedWorker() {
    put_first_map(store_, get_plan(store_, soon()), soon());
    const std::vector<float> zeros(options_.layout.size());
    const std::vector<std::uint64_t> updates(1);
    strategy_->restore({zeros, {}, updates, {}, {.step = kStep}});
    // Makes the worker a member.
    std::jthread supervisor([&] {
      const auto address = comm::ArenaAddress::parse(store_.get(comm::arena_key(0), soon()));
      auto region = std::make_shared<const comm::SharedRegion>(comm::fetch_region(address.server, soon()));
      EXPECT_FALSE(comm::Arena::find(region, address.nonce, comm::kAnyRank)) << "the state is on the servers";
      roster_.emplace(comm::Roster::attach(region, address.nonce, comm::kAnyRank));
      while (!roster_->board().occupant(0))
        std::this_thread::yield();
      roster_->begin_generation(1, 1);
    });
    strategy_->membership().meet();
  }

  const StrategyOptions options_ = supervised_options();
  const std::unique_ptr<Strategy> strategy_ = ParameterServer{}.make(options_);
  comm::Store& store_ = *options_.supervised->store;
  std::optional<comm::Roster> roster_;
};

// A worker that asks where the job stands knows where it stands itself, also when nobody answers.
TEST_F(SupervisedWorker, AQuestionThatFailsLeavesTheCursorWhereItWas) {
  arm_failpoints("parameter_server.shm.before_post=error");
  testing::expect_error(ErrorKind::kIo, "before_post", [&] { strategy_->enter_generation(); });
  disarm_failpoints();
  EXPECT_EQ(strategy_->committed().cursor.step, kStep);
}

// A server that loads what a lost one had may take longer to answer than any lane takes.
TEST_F(SupervisedWorker, IsSeenToWaitWhileItPushesAndNotToCompute) {
  strategy_->enter_generation();
  const auto sgd = compute::make_optimizer(options_.optimizer);
  strategy_->announce_rule({sgd.get(), 0.1, {}, options_.rules});
  strategy_->begin_step(data::plan_step({.step = kStep}, {.samples = 8, .batch = 4, .lanes = 2}));
  const std::optional<std::size_t> lane = strategy_->claim();
  ASSERT_TRUE(lane);
  testing::mark_trainable(options_, strategy_->area(*lane));
  strategy_->membership().begin(comm::Activity::kComputing);
  // Where it would not come back from if the server did not answer.
  arm_failpoints("parameter_server.shm.before_post=error");
  testing::expect_error(ErrorKind::kIo, "before_post", [&] { strategy_->finish(*lane, {}); });
  disarm_failpoints();
  EXPECT_EQ(roster_->board().doing(0).activity, comm::Activity::kWaiting);
}

TEST(ParameterServerOptions, ContradictionsAreRefusedWithARemedy) {
  const auto make = [](const ParameterServer& wanted) {
    StrategyOptions options{model::FlatLayout({{"w", {4}}}), {}, 0, 2};
    options.rules.resize(1);
    return wanted.make(options);
  };
  testing::expect_error(ErrorKind::kInvalidInput, "as many servers as copies", [&] { make({.copies = 2}); });
  testing::expect_error(ErrorKind::kUnsupported, "muster train", [&] { make({.servers = 2}); });
  testing::expect_error(ErrorKind::kInvalidInput, "asp or ssp",
                        [&] { make({.consistency = "asp:9, bsp", .snapshot_seconds = 1, .folder = "there"}); });
  testing::expect_error(ErrorKind::kInvalidInput, "fewer than there are lanes",
                        [&] { make({.consistency = "backup", .backups = 2}); });
}

TEST(Phases, AreReadFromOneLine) {
  const std::vector<Phase> phases = parse_phases("asp:200, ssp:50,bsp");
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[0].consistency, Consistency::kAsp);
  EXPECT_EQ(phases[1].step, 200U);
  EXPECT_EQ(phases[2].step, 250U);
  for (const char* wrong : {"", "asp:0,bsp", "asp:x,bsp", "asp,bsp", "asp:3", "bps", "bsp,", "asp:-1,bsp"})
    EXPECT_THROW(parse_phases(wrong), Error) << wrong;
}

}  // namespace
}  // namespace muster::strategies
