// shared_sync over several hosts, with Gloo between them over loopback (hosts_job.h). However lanes and workers are
// divided, and whoever dies where, every worker must end with the bits of one worker on one host, and every step must
// have given what it gave there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "muster/strategies/shared_sync/chunk_grid.h"
#include "muster/strategies/shared_sync/host_state.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "unit/strategies/hosts_job.h"

namespace muster::strategies {
namespace {

// Every lane has other tensors without a gradient, in some steps all lanes one and the same.
void compute_with_gaps(const StrategyOptions& options, const CommittedState& state, const data::StepPlan& plan,
                       std::size_t lane, const compute::LaneArea& area) {
  testing::compute_lane(options, state, plan, lane, area);
  if ((lane + plan.at.step) % 3 == 0) area.present[1] = 0;
  if (plan.at.step % 2 == 0) area.present[2] = 0;
  if (lane != 1) area.present[3] = 0;
}

// Several chunks, a tensor that never trains, a last batch of an epoch that is short: 5, 5, 5 and 2 lanes.
Training on_one_host() {
  Training training;
  training.strategy = SharedSync{};
  training.layout = model::FlatLayout({{"first", {70000}},
                                       {"second", {300, 100}},
                                       {"third", {5}},
                                       {"frozen", {1000}, false},
                                       {"fourth", {40000}},
                                       {"fifth", {70000}}});
  training.shape = {.samples = 100, .batch = 30, .lanes = 5};
  training.steps = kHostSteps;
  training.work = testing::compute_lane;
  return training;
}

class SharedSyncHosts : public ::testing::Test {
 protected:
  void expect_bits_of_one(const Training& training, const std::vector<HostPlan>& hosts,
                          const std::string& backend = "gloo") {
    const Trained expected = testing::train(training).front();
    HostsJob job(hosts, training, expected, backend);
    job.run();
    EXPECT_EQ(job.generations() > 0, true);
  }

  const Training training_ = on_one_host();
  const Trained expected_ = testing::train(training_).front();
};

// Sums that leave before their lane is done.
class EarlyExchange : public SharedSyncHosts, public ::testing::WithParamInterface<std::vector<HostPlan>> {
 protected:
  EarlyExchange() { early_.strategy = SharedSync{.exchange_early = true}; }

  Training early_ = on_one_host();
};

TEST_P(EarlyExchange, GivesTheBitsOfOneWorker) {
  HostsJob job(GetParam(), early_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
  EXPECT_NE(job.file("early").find("2 1\n"), std::string::npos) << "nothing was early: " << job.file("early");
}

TEST_F(SharedSyncHosts, SumsLeaveWhenTheFirstGradientsAreThere) {
  Training early = training_;
  early.strategy = SharedSync{.exchange_early = true};
  // The rule is there for its hits to be counted.
  HostPlan plan{1, 2, fmt::format("{}=delay=1@step=3", kSumsSent)};
  plan.waits_for_sums = true;
  HostsJob job({plan, plan}, early, expected_);
  job.run();
  EXPECT_THAT(job.file("left_early"), ::testing::AllOf(::testing::HasSubstr("1\n"), ::testing::HasSubstr("2\n")));
}

TEST_P(EarlyExchange, IsDoneAgainWhereOtherTensorsHaveGradientsThanBefore) {
  early_.work = compute_with_gaps;
  expect_bits_of_one(early_, GetParam());
}

TEST_P(EarlyExchange, AHostThatDiesInItIsDoneWithout) {
  for (const char* point : {"hosts.sums.sent", "hosts.result.before_send", "hosts.heads.before_send"}) {
    std::vector<HostPlan> hosts = GetParam();
    hosts.push_back({1, 2, fmt::format("{}=kill@step=5,attempt=0", point)});
    hosts.back().dies_whole = true;
    HostsJob job(hosts, early_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1) << point;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, EarlyExchange,
                         ::testing::Values(std::vector<HostPlan>{{1, 2}, {1, 3}},
                                           std::vector<HostPlan>{{1, 1}, {2, 3}, {1, 1}}));

TEST_F(SharedSyncHosts, AnEarlyWorkerThatDiesIsReplaced) {
  Training early = training_;
  early.strategy = SharedSync{.exchange_early = true};
  HostsJob job({{1, 3}, {1, 2, "hosts.sums.sent=kill@rank=0,step=6,attempt=0"}}, early, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
}

class Divisions : public SharedSyncHosts, public ::testing::WithParamInterface<std::vector<HostPlan>> {};

TEST_P(Divisions, GiveTheBitsOfOneWorker) {
  HostsJob job(GetParam(), training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
}

INSTANTIATE_TEST_SUITE_P(Hosts, Divisions,
                         ::testing::Values(std::vector<HostPlan>{{1, 1}, {1, 1}}, std::vector<HostPlan>{{1, 1}, {1, 4}},
                                           std::vector<HostPlan>{{2, 3}, {1, 2}},
                                           std::vector<HostPlan>{{1, 1}, {1, 1}, {1, 1}},
                                           std::vector<HostPlan>{{1, 3}, {1, 1}, {2, 1}}));

TEST_F(SharedSyncHosts, KeepTheBitsWithAbsentGradientsClippingAndNorms) {
  Training training = training_;
  training.work = compute_with_gaps;
  expect_bits_of_one(training, {{1, 2}, {1, 3}});
  training.clip_norm = 0.5;
  expect_bits_of_one(training, {{1, 2}, {2, 3}});
  training.clip_norm.reset();
  training.optimizer = compute::Lamb{.lr = 0.01};
  training.claims = Claims::kDynamic;
  expect_bits_of_one(training, {{2, 1}, {1, 3}, {1, 1}});
}

TEST_F(SharedSyncHosts, WorkOverSharedMemoryWhereHostsAreOne) {
  expect_bits_of_one(training_, {{2, 3}, {1, 2}}, "auto");
}

// Where in a step somebody dies: in its lanes, in what hosts give each other, and in the commit.
class HostLoss : public SharedSyncHosts, public ::testing::WithParamInterface<const char*> {};

TEST_P(HostLoss, AWorkerThatDiesIsReplaced) {
  HostsJob job({{2, 3, fmt::format("{}=kill@rank=0,step=5,attempt=0", GetParam())}, {1, 2}}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
}

TEST_P(HostLoss, AHostThatDiesIsDoneWithout) {
  HostPlan dying{2, 2, fmt::format("{}=kill@step=5,attempt=0", GetParam())};
  dying.dies_whole = true;
  // Once the first, whose worker leads, once the last of three.
  for (const bool first : {true, false}) {
    std::vector<HostPlan> hosts{{1, 2}, {1, 1}};
    hosts.insert(first ? hosts.begin() : hosts.end(), dying);
    HostsJob job(hosts, training_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(At, HostLoss,
                         ::testing::Values("arena.start.after", "hosts.heads.before_send", "hosts.heads.received",
                                           "hosts.sums.sent", "hosts.result.before_send", "hosts.result.sent",
                                           "arena.commit.before_arrival", "arena.commit.before_flip",
                                           "arena.commit.after_flip"));

TEST_F(SharedSyncHosts, OneThatSaysNothingAnyMoreIsDoneWithout) {
  for (const char* point : {"hosts.heads.before_send", "hosts.sums.sent", "hosts.result.before_send"}) {
    HostPlan silent{2, 2, fmt::format("{}=stop@step=5", point)};
    silent.dies_whole = true;
    HostsJob job({{1, 2}, silent, {1, 1}}, training_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1) << point;
    if (HasFailure()) return;
  }
}

TEST_F(SharedSyncHosts, ABrokenConnectionIsToldToTheCoordinatorWhichBeginsAnew) {
  HostPlan second{1, 2};
  second.breaks_at = 3;
  HostsJob job({{1, 3}, second}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
  EXPECT_GT(job.generations(), 1U);
}

TEST_F(SharedSyncHosts, ADamagedMessageIsNotUsedAndTheStepIsDoneAgain) {
  // Heads come first in a step, then sums.
  for (const int call : {0, 1, 2}) {
    HostPlan second{1, 2, fmt::format("comm.message.arrived=error@step=4,attempt=0,call={}", call)};
    HostsJob job({{1, 3}, second}, training_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 0) << call;
    EXPECT_GT(job.generations(), 1U) << call;
    if (HasFailure()) return;
  }
}

TEST_F(SharedSyncHosts, OneThatIsBehindByAStepTakesItFromTheOthers) {
  // Its last worker dies before it commits what the other host commits.
  HostsJob job({{1, 1}, {2, 1, "arena.commit.before_arrival=kill@rank=1,step=5,attempt=0"}}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
  // The other worker of that host had not seen the commit, and learned what it gave.
  EXPECT_EQ(job.file("committed_after_all"), "2\n");
}

TEST_F(SharedSyncHosts, OneThatJoinsLaterTakesPartWithTheStateOfTheOthers) {
  HostPlan late{2, 2};
  late.joins_at = 2;
  HostsJob job({{1, 2, "arena.start.after=delay=30"}, {1, 1}, late}, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
  EXPECT_NE(job.file("lanes").find(" 3\n"), std::string::npos) << "it computed nothing";
}

// On a link on which all of it takes longer than a step may: what is under way is waited for.
TEST_F(SharedSyncHosts, AStateThatTakesLongerThanAStepIsWaitedFor) {
  // Both of the others get it from the first before the first step.
  std::vector<HostPlan> hosts{{1, 2}, {1, 1}, {1, 2, "hosts.state.receiving=delay=1500"}};
  for (HostPlan& host : hosts)
    host.step_timeout = 4s;
  HostsJob job(hosts, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
}

TEST_F(SharedSyncHosts, SumsThatTakeLongerThanTheLanesOfAStepAreWaitedFor) {
  std::vector<HostPlan> hosts{{1, 2}, {1, 3, "hosts.sums.sent=delay=2500@step=3"}};
  for (HostPlan& host : hosts)
    host.step_timeout = 4s;
  HostsJob job(hosts, training_, expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 0);
}

TEST_F(SharedSyncHosts, OneThatDiesWhileItJoinsDoesNoHarm) {
  for (const char* point : {"hosts.state.receiving", "hosts.state.received", "arena.adopt.after_flip",
                            "hosts.state.before_settle", "arena.adopt.after_settle"}) {
    HostPlan late{2, 2, fmt::format("{}=kill@rank=1,attempt=0", point)};
    late.joins_at = 2;
    HostsJob job({{1, 2, "arena.start.after=delay=30"}, late}, training_, expected_);
    job.run();
    EXPECT_EQ(job.deaths(), 1) << point;
    if (HasFailure()) return;
  }
}

TEST_F(SharedSyncHosts, TheSourceOfTheStateMayDieWhileItSends) {
  HostPlan late{1, 2};
  late.joins_at = 2;
  HostsJob job({{2, 2, "hosts.state.sending=kill@rank=0,attempt=0;arena.start.after=delay=30"}, late}, training_,
               expected_);
  job.run();
  EXPECT_EQ(job.deaths(), 1);
}

TEST_F(SharedSyncHosts, TheWorkerThatIsThereLongestLeads) {
  HostPlan first{1, 2, "arena.arrive.before=kill@rank=0,step=4,attempt=0"};
  HostsJob job({first, {1, 2}}, training_, expected_);
  job.run();
  ASSERT_EQ(job.deaths(), 1);
  // The replacement has the lowest rank, and still follows.
  EXPECT_EQ(job.file("leaders").substr(0, 8), "1 1.0.0\n");
  EXPECT_NE(job.file("leaders").find(" 2.0.0\n"), std::string::npos);
}

TEST_F(SharedSyncHosts, AreNotTrainedWithoutTheStateOfTheJob) {
  // The first host is lost when no other has the state: the founder's values of the other are nobody's.
  const control::JobGeneration job{2, 5, {{2, "b", 0b1, 0, 5}}};
  const std::vector<Standing> fresh{{0, true, false}};
  EXPECT_THROW(plan_state(job, fresh), Error);
}

TEST(StatePlan, TakesTheFurthestHostThatHasAState) {
  const control::JobGeneration job{3, 6, {{1, "a", 0b11, 0, 2}, {2, "b", 0b1, 2, 4}, {3, "c", 0b1, 4, 6}}};
  StatePlan plan = plan_state(job, std::vector<Standing>{{7, false, true}, {7, false}, {8, false}, {9, true, true}});
  EXPECT_EQ(plan.source, 1U);
  EXPECT_EQ(plan.step, 8U);
  EXPECT_EQ(plan.takes, (std::vector<bool>{true, false, true}));
  EXPECT_FALSE(plan.narrator.has_value()) << "nobody of the source saw the last step";
  plan = plan_state(job, std::vector<Standing>{{7, false, true}, {7, false}, {8, false, true}, {0, true}});
  EXPECT_EQ(plan.narrator, 2);
  plan = plan_state(job, std::vector<Standing>{{8, false, true}, {8, false}, {8, false, true}, {8, false}});
  EXPECT_EQ(plan.source, 0U);
  EXPECT_FALSE(plan.anybody_takes());
}

TEST(ChunkGrid, EveryBlockHasOneOwnerOnEveryHost) {
  const model::FlatLayout layout = on_one_host().layout;
  const ChunkGrid grid(layout);
  ASSERT_GT(grid.size(), 2U);
  std::size_t next = 0;
  for (std::size_t chunk = 0; chunk < grid.size(); ++chunk) {
    EXPECT_EQ(grid.blocks(chunk).first, next);
    EXPECT_LT(grid.begin(chunk), grid.end(chunk));
    next = grid.blocks(chunk).last;
  }
  EXPECT_EQ(next, layout.blocks().size());
  for (std::size_t workers = 1; workers <= 7; ++workers) {
    std::size_t chunk = 0;
    for (std::size_t index = 0; index < workers; ++index) {
      const ChunkGrid::Share share = grid.share_of(index, workers);
      EXPECT_EQ(share.first, chunk);
      EXPECT_LE(share.first, share.last);
      chunk = share.last;
    }
    EXPECT_EQ(chunk, grid.size());
  }
}

}  // namespace
}  // namespace muster::strategies
