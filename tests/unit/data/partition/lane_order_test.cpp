// Every sample once an epoch with local data too, and what groups of workers read of it.
#include "muster/data/lane_order.h"

#include <algorithm>
#include <atomic>
#include <set>

#include "muster/data/loader.h"
#include "muster/data/partition/balanced_placement.h"
#include "muster/data/partition/partition.h"
#include "muster/data/permutation.h"
#include "support.h"

namespace muster::data {
namespace {

LocalOrder local(const std::vector<std::uint32_t>& lane_of_sample, const BatchShape& shape, std::uint64_t seed = 1) {
  // One shard a lane.
  Placement lane_of;
  for (std::uint32_t lane = 0; lane < shape.lanes; ++lane)
    lane_of.member_of.push_back(lane);
  return {Shards::listed(lane_of_sample, shape.lanes), lane_of, shape, seed};
}

TEST(GlobalOrder, IsThePermutationOfTheEpoch) {
  const BatchShape shape{.samples = 103, .batch = 16, .lanes = 4};
  const GlobalOrder order(shape, 9);
  Cursor at;
  for (int step = 0; step < 20; ++step) {
    const StepPlan plan = order.plan(at);
    EXPECT_EQ(plan.at, order.cursor_at_step(at.step));
    const Permutation permutation(103, 9, at.epoch);
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const auto ids = order.ids(plan, lane);
      ASSERT_EQ(ids.size(), plan.lanes[lane].size());
      for (std::size_t i = 0; i < ids.size(); ++i)
        EXPECT_EQ(ids[i], permutation(plan.lanes[lane].begin + i));
    }
    at = plan.next;
  }
}

TEST(LocalOrder, EveryLaneDrawsFromItsOwnShardsEverySampleOnceAnEpoch) {
  for (const char* policy : {"consecutive", "random", "hash", "balanced", "stratified", "dirichlet:5"}) {
    for (const auto& [samples, batch, lanes] : std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>{
             {1000, 64, 4}, {1003, 50, 8}, {64, 64, 8}, {517, 40, 1}}) {
      const BatchShape shape{.samples = samples, .batch = batch, .lanes = lanes};
      const auto labels = [count = samples] {
        std::vector<std::int64_t> values;
        for (std::uint64_t i = 0; i < count; ++i)
          values.push_back(static_cast<std::int64_t>(i * 5 / count));
        return values;
      };
      const LaneShards cut = partition_lanes(parse_partition(policy), samples, lanes, 7, labels);
      std::vector<std::uint32_t> lane_of_sample(samples);
      for (std::uint64_t shard = 0; shard < cut.shards.count(); ++shard) {
        for (std::uint64_t i = 0; i < cut.shards.size(shard); ++i)
          lane_of_sample[cut.shards.sample(shard, i)] = cut.lane_of.member_of[shard];
      }
      const LocalOrder order(cut.shards, cut.lane_of, shape, 1);
      EXPECT_EQ(order.steps_per_epoch(), steps_per_epoch(shape));
      Cursor at;
      for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        std::vector<int> seen(samples);
        while (at.epoch == epoch) {
          const StepPlan plan = order.plan(at);
          ASSERT_EQ(plan.lanes.size(), lanes);
          for (std::size_t lane = 0; lane < lanes; ++lane) {
            const auto ids = order.ids(plan, lane);
            ASSERT_EQ(ids.size(), plan.lanes[lane].size());
            ASSERT_GE(ids.size(), 2U);
            for (const std::uint64_t id : ids) {
              ASSERT_EQ(lane_of_sample[id], lane) << policy;
              ++seen[id];
            }
          }
          at = plan.next;
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::int64_t>(samples)) << policy;
        EXPECT_EQ(at, order.cursor_at_step((epoch + 1) * order.steps_per_epoch()));
      }
    }
  }
}

TEST(LocalOrder, UnevenLanesTakeTheirShareOfEveryStep) {
  // 300, 100 and 50 samples: 9 steps of 50.
  std::vector<std::uint32_t> lane_of(300, 0);
  lane_of.insert(lane_of.end(), 100, 1);
  lane_of.insert(lane_of.end(), 50, 2);
  const LocalOrder order = local(lane_of, {.samples = 450, .batch = 50, .lanes = 3});
  ASSERT_EQ(order.steps_per_epoch(), 9U);
  for (std::uint64_t step = 0; step < 9; ++step) {
    const StepPlan plan = order.plan(order.cursor_at_step(step));
    EXPECT_TRUE(plan.lanes[0].size() == 33 || plan.lanes[0].size() == 34);
    EXPECT_TRUE(plan.lanes[1].size() == 11 || plan.lanes[1].size() == 12);
    EXPECT_TRUE(plan.lanes[2].size() == 5 || plan.lanes[2].size() == 6);
    EXPECT_NEAR(static_cast<double>(plan.samples()), 50, 2.01) << "no step is short";
    EXPECT_NEAR(plan.weight(0) + plan.weight(1) + plan.weight(2), 1, 1e-12);
  }
}

TEST(LocalOrder, LanesAndEpochsHaveOrdersOfTheirOwn) {
  std::vector<std::uint32_t> lane_of(200);
  for (std::size_t i = 0; i < 200; ++i)
    lane_of[i] = i < 100 ? 0 : 1;
  const BatchShape shape{.samples = 200, .batch = 200, .lanes = 2};
  const LocalOrder order = local(lane_of, shape);
  const StepPlan first = order.plan({});
  const StepPlan second = order.plan(first.next);
  EXPECT_EQ(second.at.epoch, 1U);
  const auto a = order.ids(first, 0);
  auto b = order.ids(first, 1);
  for (std::uint64_t& id : b)
    id -= 100;
  EXPECT_NE(a, b);
  EXPECT_NE(a, order.ids(second, 0));
  EXPECT_EQ(a, local(lane_of, shape).ids(first, 0));
  EXPECT_NE(a, local(lane_of, shape, 2).ids(first, 0));
}

TEST(LocalOrder, ALaneWithTooFewSamplesIsRefusedByName) {
  std::vector<std::uint32_t> lane_of(100, 0);
  lane_of[99] = 1;
  const auto error = error_of([&] { local(lane_of, {.samples = 100, .batch = 50, .lanes = 2}); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->message().find("lane 1 has 1 samples"), std::string::npos) << error->message();
  lane_of[98] = 1;  // one a step: enough only where the batch asks for no more
  EXPECT_TRUE(error_of([&] { local(lane_of, {.samples = 100, .batch = 50, .lanes = 2}); }));
  EXPECT_FALSE(error_of([] { local({0, 1, 0, 1}, {.samples = 4, .batch = 2, .lanes = 2}); }));
}

TEST(LanesOfGroup, CoverAllLanesOnce) {
  for (const std::uint64_t lanes : {1, 7, 8, 64}) {
    for (const std::uint64_t groups : {1, 2, 3, 8}) {
      std::uint64_t next = 0;
      for (std::uint64_t group = 0; group < groups; ++group) {
        const LaneRange range = lanes_of_group(lanes, group, groups);
        EXPECT_EQ(range.begin, next);
        next = range.end;
      }
      EXPECT_EQ(next, lanes);
    }
  }
}

// What every group of `groups` reads in an epoch, through a loader of its own: its reads, and the samples.
std::vector<std::pair<std::uint64_t, std::set<std::uint64_t>>> reads_of_groups(const LaneOrder& order,
                                                                               std::uint64_t samples,
                                                                               std::uint64_t lanes,
                                                                               std::uint64_t groups) {
  std::vector<std::pair<std::uint64_t, std::set<std::uint64_t>>> result(groups);
  for (std::uint64_t group = 0; group < groups; ++group) {
    const auto dataset = std::make_shared<Counting>(samples);
    std::uint64_t reads = 0;
    std::set<std::uint64_t> ids;
    dataset->on_read = [&](std::uint64_t id) {
      ++reads;
      ids.insert(id);
    };
    Loader loader(dataset, {.threads = 0});
    const LaneRange own = lanes_of_group(lanes, group, groups);
    for (Cursor at; at.epoch < 2;) {
      const StepPlan plan = order.plan(at);
      for (std::uint64_t lane = own.begin; lane < std::min<std::uint64_t>(own.end, plan.lanes.size()); ++lane)
        loader.recycle(loader.take(loader.submit(order.ids(plan, lane)), Deadline::after(std::chrono::minutes(1))));
      at = plan.next;
    }
    result[group] = {reads, ids};
  }
  return result;
}

TEST(LocalOrder, AGroupReadsItsNthOfTheDataAndOfTheBytes) {
  constexpr std::uint64_t kSamples = 2048;
  const BatchShape shape{.samples = kSamples, .batch = 64, .lanes = 8};
  const LaneShards cut = partition_lanes({}, kSamples, 8, 1, {});
  const LocalOrder order(cut.shards, cut.lane_of, shape, 1);
  for (const std::uint64_t groups : {1, 2, 4, 8}) {
    std::set<std::uint64_t> all;
    for (const auto& [reads, ids] : reads_of_groups(order, kSamples, 8, groups)) {
      EXPECT_EQ(reads, 2 * kSamples / groups) << "two epochs";
      EXPECT_EQ(ids.size(), kSamples / groups) << "the same samples in both";
      all.insert(ids.begin(), ids.end());
    }
    EXPECT_EQ(all.size(), kSamples);
  }
  // Without local placement a group meets nearly all of the data: the same reads, of other samples every epoch.
  const GlobalOrder global(shape, 1);
  for (const auto& [reads, ids] : reads_of_groups(global, kSamples, 8, 2)) {
    EXPECT_EQ(reads, kSamples);
    EXPECT_GT(ids.size(), kSamples * 7 / 10);
  }
}

}  // namespace
}  // namespace muster::data
