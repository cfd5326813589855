// Held against the paper's numbers of parameters, and against the definition of a residual block.
#include "muster/model/zoo/wide_resnet.h"

#include <tuple>

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

// Table 4 and 5 of the paper, in millions.
TEST(WideResNet, HasThePapersNumbersOfParameters) {
  for (const auto& [depth, factor, millions] : std::vector<std::tuple<int, int, double>>{
           {40, 1, 0.6}, {40, 2, 2.2}, {40, 4, 8.9}, {40, 8, 35.7}, {28, 10, 36.5}, {22, 8, 17.2}, {16, 8, 11.0}}) {
    const auto net = wide_resnet({.depth = depth, .factor = factor});
    EXPECT_NEAR(static_cast<double>(parameter_count(*net)) / 1e6, millions, 0.051) << depth << "-" << factor;
  }
}

// By the rule: stem; in each stage the first block with its 1x1 shortcut, then n - 1 alike; last norm; classifier.
TEST(WideResNet, HasTheParametersOfItsLayers) {
  const auto block = [](std::int64_t in, std::int64_t out) {
    return 2 * in + 9 * in * out + 2 * out + 9 * out * out + (in != out ? in * out : 0);
  };
  const std::int64_t expected = 27 * 16 + block(16, 32) + block(32, 32) + block(32, 64) + block(64, 64) +
                                block(64, 128) + block(128, 128) + 2 * 128 + 128 * 10 + 10;
  EXPECT_EQ(parameter_count(*wide_resnet({.depth = 16, .factor = 2})), expected);
}

TEST(WideResNet, TakesImagesOfAnySizeAndGradientsReachEveryParameter) {
  const auto net = wide_resnet({.depth = 10, .factor = 2, .classes = 7, .dropout = 0.3});
  expect_gradients_everywhere(*net, torch::randn({4, 3, 32, 32}));
  net->eval();
  EXPECT_EQ(net->forward(torch::randn({2, 3, 9, 17})).sizes(), (torch::IntArrayRef{2, 7}));
}

TEST(WideResNet, DropsOutOnlyInTraining) {
  const auto net = wide_resnet({.depth = 10, .factor = 1, .dropout = 0.5});
  const auto x = torch::randn({2, 3, 8, 8});
  EXPECT_FALSE(same_bits(net->forward(x), net->forward(x)));
  net->eval();
  EXPECT_TRUE(same_bits(net->forward(x), net->forward(x)));
}

// A block whose second convolution is zero passes its input on; with a change of shape, the 1x1 convolution of the
// activated input.
TEST(WideResNet, BlocksAreResidual) {
  const auto net = wide_resnet({.depth = 10, .factor = 1, .classes = 64});
  torch::NoGradGuard guard;
  net->eval();
  auto parameters = net->named_parameters();
  for (auto& parameter : parameters) {
    if (parameter.key().find("conv2") != std::string::npos) parameter.value().zero_();
  }
  const auto x = torch::randn({2, 3, 8, 8});
  const auto norm = [](const torch::Tensor& in) { return torch::relu(in / std::sqrt(1 + 1e-5)); };
  auto expected = torch::conv2d(x, parameters["conv1.weight"], {}, 1, 1);
  expected = torch::conv2d(norm(expected), parameters["layer2.0.shortcut.weight"], {}, 2);
  expected = torch::conv2d(norm(expected), parameters["layer3.0.shortcut.weight"], {}, 2);
  expected = torch::linear(norm(expected).mean({2, 3}), parameters["fc.weight"], parameters["fc.bias"]);
  EXPECT_TRUE(torch::allclose(net->forward(x), expected, 1e-4, 1e-5));
}

TEST(WideResNet, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(wide_resnet({.depth = 4}), Error);
  EXPECT_THROW(wide_resnet({.depth = 20}), Error);
  EXPECT_THROW(wide_resnet({.factor = 0}), Error);
  EXPECT_THROW(wide_resnet({.classes = 0}), Error);
  EXPECT_THROW(wide_resnet({.dropout = 1}), Error);
}

}  // namespace
}  // namespace muster::zoo
