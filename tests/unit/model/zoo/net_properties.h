// What every model of the zoo is asked.
#pragma once

#include <gtest/gtest.h>

#include "muster/model/net.h"

namespace muster::zoo {

inline std::int64_t parameter_count(const model::Net& net) {
  std::int64_t count = 0;
  for (const auto& parameter : net.parameters())
    count += parameter.numel();
  return count;
}

// After one backward every parameter has a gradient that is finite and not all zero.
inline void expect_gradients_everywhere(model::Net& net, const torch::Tensor& x) {
  net.train();
  torch::Tensor scores = net.forward(x);
  scores = scores.reshape({-1, scores.size(-1)});
  const auto target = torch::arange(scores.size(0)).remainder(scores.size(1));
  torch::nn::functional::cross_entropy(scores, target).backward();
  for (const auto& parameter : net.named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(torch::isfinite(parameter.value().grad()).all().item<bool>()) << parameter.key();
    EXPECT_GT(parameter.value().grad().abs().sum().item<float>(), 0) << parameter.key();
  }
}

inline bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() && torch::equal(a, b);
}

}  // namespace muster::zoo
