// The plan (pairs and shares) is drawn first, from the lane's key; blending then needs no random numbers, and targets
// are blended by the same plan.
#include "muster/data/augment/mixup.h"

#include <cmath>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/kernel.h"
#include "muster/data/gamma_draw.h"
#include "muster/data/permutation.h"

namespace muster::data {
namespace {

double symmetric_beta(double alpha, RandomStream& draws) {
  const double a = draw_log_gamma(alpha, draws);
  const double b = draw_log_gamma(alpha, draws);
  return 1 / (1 + std::exp(b - a));
}

MUSTER_KERNEL void blend_pair(float* __restrict a, float* __restrict b, std::size_t count, float weight) {
  const float rest = 1 - weight;
  for (std::size_t i = 0; i < count; ++i) {
    const float left = a[i];
    a[i] = weight * left + rest * b[i];
    b[i] = weight * b[i] + rest * left;
  }
}

}  // namespace

MixupPlan plan_mixup(std::size_t samples, double alpha, const StreamKey& key) {
  MUSTER_CHECK(alpha > 0, "a weight has a distribution");
  const Permutation order(samples, key);
  StreamKey weights = key;
  weights.sample = 1;  // another stream than the one that made the order
  RandomStream draws(weights);
  MixupPlan plan;
  plan.partner.resize(samples);
  plan.weight.resize(samples);
  std::size_t i = 0;
  for (; i + 1 < samples; i += 2) {
    const std::size_t a = order(i);
    const std::size_t b = order(i + 1);
    plan.partner[a] = b;
    plan.partner[b] = a;
    plan.weight[a] = plan.weight[b] = static_cast<float>(symmetric_beta(alpha, draws));
  }
  if (i < samples) {
    plan.partner[order(i)] = order(i);
    plan.weight[order(i)] = 1;
  }
  return plan;
}

void mix(std::span<float> features, const MixupPlan& plan) {
  const std::size_t samples = plan.partner.size();
  if (samples == 0) return;
  MUSTER_CHECK(features.size() % samples == 0, "features of another number of samples");
  const std::size_t elements = features.size() / samples;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t partner = plan.partner[i];
    if (partner <= i) continue;
    blend_pair(features.data() + i * elements, features.data() + partner * elements, elements, plan.weight[i]);
  }
}

std::vector<float> mixed_targets(std::span<const std::int64_t> labels, std::int64_t classes, const MixupPlan& plan) {
  MUSTER_CHECK(labels.size() == plan.partner.size(), "labels of another number of samples");
  const auto columns = static_cast<std::size_t>(classes);
  std::vector<float> targets(labels.size() * columns, 0.0F);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    MUSTER_CHECK(labels[i] >= 0 && labels[i] < classes, "a label that is no class");
    float* row = targets.data() + i * columns;
    row[labels[i]] += plan.weight[i];
    row[labels[plan.partner[i]]] += 1 - plan.weight[i];
  }
  return targets;
}

void mix_lane(Batch& batch, double alpha, const SampleSpec& spec, const StreamKey& key) {
  if (spec.input != InputKind::kFloats || spec.target != TargetKind::kClass || spec.classes < 1) {
    throw Error(ErrorKind::kInvalidInput, "mixup blends numbers with a class; these samples are others", {},
                "Remove mixup from data.augment.");
  }
  const MixupPlan plan = plan_mixup(batch.size(), alpha, key);
  mix(batch.features.span(), plan);
  batch.probabilities = mixed_targets(batch.labels, spec.classes, plan);
}

}  // namespace muster::data
