// Samples drawn by their weights, and orders of a program's own: how often, how many, and what is refused.
#include "muster/data/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "muster/data/numbered.h"
#include "muster/data/sampled_order.h"
#include "support/errors.h"

namespace muster::data {
namespace {

TEST(Weighted, DrawsByTheWeightsAndAnewEveryEpoch) {
  const std::vector<double> weights{0, 1, 3, 0, 4, 0};
  const Sampling sampling = weighted(weights, 80000, 5);
  std::map<std::uint64_t, double> counts;
  const std::vector<std::uint64_t> first = sampling.ids(0);
  for (const std::uint64_t id : first)
    ++counts[id];
  ASSERT_EQ(first.size(), 80000U);
  EXPECT_EQ(counts.size(), 3U) << "what has no weight never comes";
  for (const auto& [id, count] : counts) {
    const double share = weights[id] / 8;
    EXPECT_NEAR(count, 80000 * share, 6 * std::sqrt(80000 * share * (1 - share))) << id;
  }
  EXPECT_EQ(sampling.ids(0), first);
  EXPECT_NE(sampling.ids(1), first);
  EXPECT_NE(weighted(weights, 80000, 6).ids(0), first);
}

TEST(Weighted, RefusesWhatAreNoWeights) {
  const auto refuses = [](const std::vector<double>& weights) {
    testing::expect_error(ErrorKind::kInvalidInput, "weight", [&] { weighted(weights, 3, 1); });
  };
  refuses({});
  refuses({0, 0});
  refuses({1, -1});
  refuses({1, NAN});
}

TEST(SampledOrder, GoesThroughTheProgramsOrderInLanes) {
  const auto ids = [](std::uint64_t epoch) { return std::vector<std::uint64_t>{epoch, 1, 2, 3, 4, 5, 6, 7, 8, 9}; };
  const SampledOrder order({10, ids}, 4, 2, 20);
  EXPECT_EQ(order.steps_per_epoch(), 3U);
  std::vector<std::uint64_t> seen;
  Cursor at;
  for (int step = 0; step < 9; ++step) {  // three epochs, of which two are kept
    const StepPlan plan = order.plan(at);
    for (std::size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const std::vector<std::uint64_t> of_lane = order.ids(plan, lane);
      seen.insert(seen.end(), of_lane.begin(), of_lane.end());
    }
    at = plan.next;
  }
  std::vector<std::uint64_t> expected;
  for (const std::uint64_t epoch : {0, 1, 2}) {
    const std::vector<std::uint64_t> of_epoch = ids(epoch);
    expected.insert(expected.end(), of_epoch.begin(), of_epoch.end());
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(order.ids(order.plan({}), 0), (std::vector<std::uint64_t>{0, 1})) << "an epoch of before, asked for again";
}

TEST(SampledOrder, RefusesWhatTheFunctionMustNotGive) {
  const auto first_ids = [](std::uint64_t said, std::vector<std::uint64_t> given) {
    const SampledOrder order({said, [given](std::uint64_t) { return given; }}, 2, 1, 5);
    return order.ids(order.plan({}), 0);
  };
  EXPECT_EQ(first_ids(3, {4, 4, 0}), (std::vector<std::uint64_t>{4, 4}));
  testing::expect_error(ErrorKind::kInvalidInput, "gives 2 samples for epoch 0, and said 3", [&] {
    first_ids(3, {1, 2});
  });
  testing::expect_error(ErrorKind::kInvalidInput, "gives sample 5 in epoch 0", [&] { first_ids(3, {1, 5, 2}); });
  testing::expect_error(ErrorKind::kInvalidInput, "without samples", [&] { first_ids(0, {}); });
}

TEST(Numbered, TargetsAreTheNumbers) {
  const auto numbers = numbered(7);
  EXPECT_EQ(numbers->size(), 7U);
  std::vector<float> features(numbers->spec().elements(), 1);
  EXPECT_EQ(numbers->read(4, features), 4);
  EXPECT_EQ(numbers->label(6), 6);
  testing::expect_error(ErrorKind::kInvalidInput, "no samples", [] { numbered(0); });
}

}  // namespace
}  // namespace muster::data
