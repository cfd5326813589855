// Mixup: pairs of samples and their labels are blended, so that a model learns to answer in between (Zhang et al.,
// 2018).
//
// Partners are chosen inside the lane, by the lane's key alone: whoever computes the lane finds both samples in its own
// batch, and the bits are those of any other worker. The pairs are a random matching; of an odd number one stays as it
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/dataset.h"
#include "muster/data/loader.h"

namespace muster::data {

// Sample i becomes weight[i] * sample i + (1 - weight[i]) * sample partner[i].
struct MixupPlan {
  std::vector<std::size_t> partner = {};  // partner[partner[i]] == i
  std::vector<float> weight = {};         // the same for both of a pair; 1 for a sample that is its own partner
};

// For a lane of `samples` samples; weights are drawn from Beta(alpha, alpha).
// REQUIRES: alpha > 0. The key is {.seed, .purpose = Purpose::kMixup, .step, .lane}.
MixupPlan plan_mixup(std::size_t samples, double alpha, const StreamKey& key);

// Blends in place. REQUIRES: features.size() is a multiple of plan.partner.size().
void mix(std::span<float> features, const MixupPlan& plan);

// What a model is to answer: a row of `classes` probabilities for each sample.
// REQUIRES: as many labels as samples, each 0 .. classes-1.
std::vector<float> mixed_targets(std::span<const std::int64_t> labels, std::int64_t classes, const MixupPlan& plan);

// All of it for a lane as it was loaded: features are blended, and Batch::probabilities say what is to be answered.
// Throws Error{kInvalidInput} for samples that are not numbers with a class.
void mix_lane(Batch& batch, double alpha, const SampleSpec& spec, const StreamKey& key);

}  // namespace muster::data
