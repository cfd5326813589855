// Pairs, shares and targets of mixed lanes; the shares have the moments of their distribution.
#include "muster/data/augment/mixup.h"

#include <chrono>
#include <cmath>
#include <set>

#include "support.h"

namespace muster::data {
namespace {

StreamKey key(std::uint64_t step, std::uint64_t lane = 0) {
  return {.seed = 3, .purpose = Purpose::kMixup, .step = step, .lane = lane};
}

TEST(PlanMixup, EverySampleHasOnePartnerAndBothTheSameWeight) {
  for (const std::size_t samples : {0U, 1U, 2U, 3U, 8U, 33U}) {
    const MixupPlan plan = plan_mixup(samples, 0.4, key(1));
    ASSERT_EQ(plan.partner.size(), samples);
    std::size_t alone = 0;
    for (std::size_t i = 0; i < samples; ++i) {
      ASSERT_LT(plan.partner[i], samples);
      EXPECT_EQ(plan.partner[plan.partner[i]], i);
      EXPECT_EQ(plan.weight[plan.partner[i]], plan.weight[i]);
      EXPECT_TRUE(plan.weight[i] >= 0 && plan.weight[i] <= 1);
      if (plan.partner[i] == i) {
        ++alone;
        EXPECT_EQ(plan.weight[i], 1);
      }
    }
    EXPECT_EQ(alone, samples % 2);
  }
}

TEST(PlanMixup, DependsOnTheLaneAndTheStepAlone) {
  const auto partners = [](const StreamKey& k) { return plan_mixup(32, 1, k).partner; };
  EXPECT_EQ(partners(key(5, 2)), partners(key(5, 2)));
  EXPECT_NE(partners(key(5, 2)), partners(key(5, 3)));
  EXPECT_NE(partners(key(5, 2)), partners(key(6, 2)));
  std::set<std::size_t> met;
  for (std::uint64_t step = 0; step < 60; ++step)
    met.insert(plan_mixup(5, 1, key(step)).partner[0]);
  EXPECT_EQ(met.size(), 5U) << "any partner, or none";
}

TEST(PlanMixup, WeightsHaveTheMomentsOfBeta) {
  for (const double alpha : {0.1, 0.4, 1.0, 3.0}) {
    double mean = 0;
    double square = 0;
    constexpr int kSteps = 400;
    constexpr std::size_t kSamples = 64;
    for (int step = 0; step < kSteps; ++step) {
      for (const float weight : plan_mixup(kSamples, alpha, key(static_cast<std::uint64_t>(step))).weight) {
        mean += weight / (kSteps * 64.0);
        square += weight * weight / (kSteps * 64.0);
      }
    }
    EXPECT_NEAR(mean, 0.5, 0.015) << alpha;
    EXPECT_NEAR(square - mean * mean, 1 / (4 * (2 * alpha + 1)), 0.006) << alpha;
  }
}

TEST(Mix, BlendsPairsInPlace) {
  const MixupPlan plan{.partner = {2, 1, 0}, .weight = {0.75F, 1, 0.75F}};
  std::vector<float> features{1, 2, 10, 20, 5, 6};
  mix(features, plan);
  EXPECT_EQ(features, (std::vector<float>{2, 3, 10, 20, 4, 5}));
  std::vector<float> none;
  mix(none, MixupPlan{});
}

TEST(MixedTargets, AreTheProbabilitiesOfBothLabels) {
  const MixupPlan plan{.partner = {2, 3, 0, 1, 4}, .weight = {0.75F, 0.25F, 0.75F, 0.25F, 1}};
  const std::vector<std::int64_t> labels{0, 1, 2, 1, 0};
  EXPECT_EQ(mixed_targets(labels, 3, plan), (std::vector<float>{0.75F, 0, 0.25F,  //
                                                                0, 1, 0,          //
                                                                0.25F, 0, 0.75F,  //
                                                                0, 1, 0,          //
                                                                1, 0, 0}));
}

TEST(MixLane, BlendsALoadedBatchAndSaysWhatToAnswer) {
  const auto dataset = std::make_shared<Counting>(9);
  Loader loader(dataset, {.threads = 0});
  const auto load = [&] { return loader.take(loader.submit({4, 8, 1, 6}), Deadline::after(std::chrono::minutes(1))); };
  Batch batch = load();
  mix_lane(batch, 0.5, dataset->spec(), key(2, 1));
  const MixupPlan plan = plan_mixup(4, 0.5, key(2, 1));
  const Batch before = load();
  for (std::size_t i = 0; i < 4; ++i) {
    const float weight = plan.weight[i];
    const std::size_t other = plan.partner[i];
    EXPECT_FLOAT_EQ(batch.features.data()[2 * i],
                    weight * before.features.data()[2 * i] + (1 - weight) * before.features.data()[2 * other]);
    float sum = 0;
    for (std::size_t c = 0; c < 3; ++c)
      sum += batch.probabilities[3 * i + c];
    EXPECT_FLOAT_EQ(sum, 1);
  }
  loader.recycle(std::move(batch));
  EXPECT_TRUE(load().probabilities.empty()) << "memory that was used before";
  Batch again = load();
  EXPECT_TRUE(error_of([&] { mix_lane(again, 1, {.shape = {2}, .target = TargetKind::kValues}, key(1)); }));
}

}  // namespace
}  // namespace muster::data
