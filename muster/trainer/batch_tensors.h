// A batch as tensors: the one place where the data layer's memory meets LibTorch.
//
// The tensors are views: they are good as long as the batch is neither moved, recycled nor destroyed.
#pragma once

#include <torch/torch.h>

#include "muster/data/loader.h"

namespace muster::trainer {

// Floats of {samples, shape...}, or 64-bit integers where the samples are tokens.
inline torch::Tensor input_tensor(data::Batch& batch) {
  if (batch.features.size() > 0) return torch::from_blob(batch.features.data(), batch.shape, torch::kFloat32);
  return torch::from_blob(batch.tokens.data(), batch.shape, torch::kInt64);
}

// Labels of {samples, target_shape...} as 64-bit integers, or values as floats; of samples that were mixed,
// probabilities of {samples, classes}.
inline torch::Tensor target_tensor(data::Batch& batch) {
  if (!batch.probabilities.empty()) {
    const auto samples = static_cast<std::int64_t>(batch.size());
    const auto classes = static_cast<std::int64_t>(batch.probabilities.size()) / samples;
    return torch::from_blob(batch.probabilities.data(), {samples, classes}, torch::kFloat32);
  }
  if (!batch.values.empty()) return torch::from_blob(batch.values.data(), batch.target_shape, torch::kFloat32);
  return torch::from_blob(batch.labels.data(), batch.target_shape, torch::kInt64);
}

}  // namespace muster::trainer
