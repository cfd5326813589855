// The coefficient of clipping against torch::nn::utils::clip_grad_norm_.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "muster/compute/clipping.h"
#include "muster/compute/reduce.h"
#include "unit/compute/samples.h"

namespace muster::compute {
namespace {

TEST(ClippingTorch, ScalesAsClipGradNorm) {
  for (const double max_norm : {0.1, 5.0, 1000.0}) {
    const std::vector<float> first = samples(700, 1), second = samples(33, 2);
    std::vector<torch::Tensor> parameters;
    for (const auto& gradient : {first, second}) {
      parameters.push_back(torch::zeros({static_cast<std::int64_t>(gradient.size())}).set_requires_grad(true));
      parameters.back().mutable_grad() = torch::tensor(gradient);
    }
    const double theirs = torch::nn::utils::clip_grad_norm_(parameters, max_norm);
    const double sums[] = {examine(first).squares, examine(second).squares};
    const double ours = std::sqrt(combine(sums));
    EXPECT_NEAR(ours, theirs, 1e-6 * theirs);
    const float coefficient = clip_coefficient(ours, max_norm);
    for (std::size_t i = 0; i < second.size(); ++i) {
      EXPECT_NEAR(coefficient * second[i], parameters[1].grad()[static_cast<std::int64_t>(i)].item<float>(),
                  1e-6 * std::abs(coefficient));
    }
  }
}

}  // namespace
}  // namespace muster::compute
