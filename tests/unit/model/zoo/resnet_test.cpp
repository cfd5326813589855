// Names, shapes and numbers of parameters as torchvision and the papers have them, written down here from their rules.
#include "muster/model/zoo/resnet.h"

#include <algorithm>
#include <tuple>

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

using Shape = std::vector<std::int64_t>;
using Listing = std::vector<std::pair<std::string, Shape>>;

template <typename Dictionary>
Listing listing(const Dictionary& tensors) {
  Listing rows;
  for (const auto& item : tensors)
    rows.emplace_back(item.key(), item.value().sizes().vec());
  return rows;
}

// The expected names and shapes, written down from the papers' rules.
struct Expected {
  Listing parameters;
  Listing buffers;

  void norm(const std::string& name, std::int64_t channels) {
    parameters.push_back({name + ".weight", {channels}});
    parameters.push_back({name + ".bias", {channels}});
    buffers.push_back({name + ".running_mean", {channels}});
    buffers.push_back({name + ".running_var", {channels}});
    buffers.push_back({name + ".num_batches_tracked", {}});
  }
  void conv(const std::string& name, std::int64_t outputs, std::int64_t inputs, std::int64_t kernel) {
    parameters.push_back({name + ".weight", {outputs, inputs, kernel, kernel}});
  }
};

Expected expected(std::int64_t stem_kernel, std::int64_t width, int stages, int blocks, bool projection,
                  std::int64_t classes) {
  Expected rows;
  rows.conv("conv1", width, 3, stem_kernel);
  rows.norm("bn1", width);
  std::int64_t inputs = width;
  for (int stage = 0; stage < stages; ++stage) {
    const std::int64_t outputs = width << stage;
    for (int block = 0; block < blocks; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      rows.conv(name + ".conv1", outputs, inputs, 3);
      rows.norm(name + ".bn1", outputs);
      rows.conv(name + ".conv2", outputs, outputs, 3);
      rows.norm(name + ".bn2", outputs);
      if (projection && stage > 0 && block == 0) {
        rows.conv(name + ".downsample.0", outputs, inputs, 1);
        rows.norm(name + ".downsample.1", outputs);
      }
      inputs = outputs;
    }
  }
  rows.parameters.push_back({"fc.weight", {classes, inputs}});
  rows.parameters.push_back({"fc.bias", {classes}});
  return rows;
}

TEST(ResNet18, HasTorchvisionsNamesShapesAndOrder) {
  const auto net = resnet();
  const Expected rows = expected(7, 64, 4, 2, true, 1000);
  EXPECT_EQ(rows.parameters.size(), 62u);
  EXPECT_EQ(listing(net->named_parameters()), rows.parameters);
  EXPECT_EQ(listing(net->named_buffers()), rows.buffers);
  EXPECT_THAT(rows.parameters,
              ::testing::Contains(::testing::Pair("layer2.0.downsample.0.weight", Shape{128, 64, 1, 1})));
}

TEST(ResNet18, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(*resnet()), 11'689'512);
  EXPECT_EQ(parameter_count(*resnet({.depth = 18, .classes = 10})), 11'689'512 - 990 * 513);
}

// torchvision's, and so the published, numbers.
TEST(ResNet, DeeperOnesHaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(parameter_count(*resnet({.depth = 34})), 21'797'672);
  EXPECT_EQ(parameter_count(*resnet({.depth = 50})), 25'557'032);
  EXPECT_EQ(parameter_count(*resnet({.depth = 101})), 44'549'160);
  EXPECT_EQ(parameter_count(*resnet({.depth = 152})), 60'192'808);
}

// torchvision's again. Only the 3x3 convolutions of the bottlenecks and what touches them are wider.
TEST(WideResNet50, HasThePublishedNumberOfParametersAndTheNamesOfResNet50) {
  const auto wide = resnet({.depth = 50, .width_factor = 2});
  EXPECT_EQ(parameter_count(*wide), 68'883'240);
  const auto parameters = wide->named_parameters();
  EXPECT_EQ(parameters.keys(), resnet({.depth = 50})->named_parameters().keys());
  EXPECT_EQ(parameters["layer1.0.conv2.weight"].sizes(), (torch::IntArrayRef{128, 128, 3, 3}));
  EXPECT_EQ(parameters["layer4.2.conv3.weight"].sizes(), (torch::IntArrayRef{2048, 1024, 1, 1}));
  EXPECT_EQ(parameter_count(*resnet({.depth = 101, .width_factor = 2})), 126'886'696);
  EXPECT_THROW(resnet({.depth = 18, .width_factor = 2}), Error);
  EXPECT_THROW(resnet({.depth = 50, .width_factor = 0}), Error);
}

TEST(ResNet50, HasTorchvisionsNamesAndShapes) {
  const auto net = resnet({.depth = 50});
  const Listing rows = listing(net->named_parameters());
  EXPECT_EQ(rows.size(), 161u);
  // The first block of the second stage, whose 3x3 convolution has the stride, in torchvision's order.
  Expected block;
  block.conv("layer2.0.conv1", 128, 256, 1);
  block.norm("layer2.0.bn1", 128);
  block.conv("layer2.0.conv2", 128, 128, 3);
  block.norm("layer2.0.bn2", 128);
  block.conv("layer2.0.conv3", 512, 128, 1);
  block.norm("layer2.0.bn3", 512);
  block.conv("layer2.0.downsample.0", 512, 256, 1);
  block.norm("layer2.0.downsample.1", 512);
  const auto at = std::find(rows.begin(), rows.end(), block.parameters.front());
  ASSERT_LE(static_cast<std::size_t>(block.parameters.size()), static_cast<std::size_t>(rows.end() - at));
  EXPECT_EQ(Listing(at, at + static_cast<std::ptrdiff_t>(block.parameters.size())), block.parameters);
  EXPECT_THAT(rows, ::testing::Contains(::testing::Pair("layer1.0.downsample.0.weight", Shape{256, 64, 1, 1})));
  EXPECT_THAT(rows, ::testing::Contains(::testing::Pair("fc.weight", Shape{1000, 2048})));
}

TEST(ResNet20, HasItsNamesShapesAndOrder) {
  const auto net = resnet({.depth = 20, .classes = 10});
  const Expected rows = expected(3, 16, 3, 3, false, 10);
  EXPECT_EQ(listing(net->named_parameters()), rows.parameters);
  EXPECT_EQ(listing(net->named_buffers()), rows.buffers);
}

// 9 c_in c_out for a convolution, 2 c for a batch norm; the shortcuts have none (the paper: "0.27M").
TEST(ResNet20, HasThePapersNumberOfParameters) {
  const std::int64_t stem = 9 * 3 * 16 + 2 * 16;
  const std::int64_t first = 6 * (9 * 16 * 16 + 2 * 16);
  const std::int64_t second = 9 * 16 * 32 + 5 * 9 * 32 * 32 + 6 * 2 * 32;
  const std::int64_t third = 9 * 32 * 64 + 5 * 9 * 64 * 64 + 6 * 2 * 64;
  EXPECT_EQ(parameter_count(*resnet({.depth = 20, .classes = 10})), stem + first + second + third + 64 * 10 + 10);
  EXPECT_EQ(stem + first + second + third + 64 * 10 + 10, 269'722);
}

// n blocks a stage: the stem, the stages, the classifier; with n = 5, 7, 9, 18 the paper's 0.46, 0.66, 0.85 and 1.7 M.
TEST(ResNetCifar, DeeperOnesHaveThePapersNumbersOfParameters) {
  for (const auto& [depth, n, millions] : std::vector<std::tuple<int, std::int64_t, double>>{
           {32, 5, 0.46}, {44, 7, 0.66}, {56, 9, 0.85}, {110, 18, 1.7}}) {
    const std::int64_t count = 432 + 32 + 2 * n * (9 * 16 * 16 + 32) + 9 * 16 * 32 + (2 * n - 1) * 9 * 32 * 32 +
                               2 * n * 64 + 9 * 32 * 64 + (2 * n - 1) * 9 * 64 * 64 + 2 * n * 128 + 650;
    EXPECT_EQ(parameter_count(*resnet({.depth = depth, .classes = 10})), count) << depth;
    EXPECT_NEAR(static_cast<double>(count) / 1e6, millions, 0.05) << depth;
  }
}

class ResNetDepth : public ::testing::TestWithParam<int> {};

TEST_P(ResNetDepth, TakesImagesOfAnySize) {
  for (const auto& size : std::vector<Shape>{{3, 32, 32}, {1, 28, 28}, {3, 33, 17}, {2, 1, 1}}) {
    const auto net = resnet({.depth = GetParam(), .classes = 7, .channels = size[0]});
    net->eval();
    EXPECT_EQ(net->forward(torch::randn({2, size[0], size[1], size[2]})).sizes(), (torch::IntArrayRef{2, 7}));
  }
}

TEST_P(ResNetDepth, GradientsReachEveryParameter) {
  expect_gradients_everywhere(*resnet({.depth = GetParam(), .classes = 10}), torch::randn({4, 3, 32, 32}));
}

TEST_P(ResNetDepth, LeavesItsInputAlone) {
  const auto net = resnet({.depth = GetParam(), .classes = 10});
  const auto x = torch::randn({2, 3, 32, 32});
  const auto before = x.clone();
  net->forward(x);
  EXPECT_TRUE(same_bits(x, before));
}

TEST_P(ResNetDepth, StartsAsTorchvisionDoes) {
  const auto net = resnet({.depth = GetParam(), .classes = 10});
  for (const auto& parameter : net->named_parameters()) {
    const torch::Tensor& value = parameter.value();
    if (value.dim() == 4) {
      // He's normal by fan-out; the mean of n squares is within 6 standard errors of its expectation.
      const double variance = 2.0 / static_cast<double>(value.size(0) * value.size(2) * value.size(3));
      const double measured = value.pow(2).mean().item<double>();
      EXPECT_NEAR(measured / variance, 1, 6 * std::sqrt(2.0 / static_cast<double>(value.numel()))) << parameter.key();
    } else if (parameter.key().find("bn") != std::string::npos ||
               parameter.key().find("downsample.1") != std::string::npos) {
      const bool weight = parameter.key().ends_with("weight");
      EXPECT_TRUE(torch::equal(value, weight ? torch::ones_like(value) : torch::zeros_like(value))) << parameter.key();
    } else {
      const double bound = 1 / std::sqrt(static_cast<double>(GetParam() == 18 ? 512 : GetParam() == 50 ? 2048 : 64));
      EXPECT_LE(value.abs().max().item<double>(), bound) << parameter.key();
      EXPECT_GT(value.abs().max().item<double>(), bound / 2) << parameter.key();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Depths, ResNetDepth, ::testing::Values(18, 20, 50));

// The first block of a stage with its convolutions switched off passes on its shortcut: every second pixel, zeros
// behind.
TEST(ResNet20, ShortcutTakesEverySecondPixelAndAddsZeroChannels) {
  const auto net = resnet({.depth = 20, .classes = 64});
  torch::NoGradGuard guard;
  net->eval();
  // Blocks that add nothing: the last norm of each is zero. The stem copies the image into channels 0 to 2.
  for (const auto& parameter : net->named_parameters()) {
    if (parameter.key().find("bn2") != std::string::npos) parameter.value().zero_();
  }
  auto& stem = net->named_parameters()["conv1.weight"];
  stem.zero_();
  for (int channel = 0; channel < 3; ++channel)
    stem.index_put_({channel, channel, 1, 1}, std::sqrt(1 + 1e-5));
  net->named_parameters()["fc.weight"].copy_(torch::eye(64));
  net->named_parameters()["fc.bias"].zero_();
  const auto image = torch::rand({1, 3, 9, 9});
  const auto out = net->forward(image);
  const auto pixels = image.slice(2, 0, 9, 4).slice(3, 0, 9, 4);  // twice every second
  EXPECT_TRUE(torch::allclose(out.slice(1, 0, 3), pixels.mean({2, 3}), 1e-4, 1e-5));
  EXPECT_EQ(out.slice(1, 3).abs().max().item<float>(), 0);
}

TEST(ResNet, RefusesOtherDepthsAndNamesThoseItHas) {
  try {
    resnet({.depth = 19});
    ADD_FAILURE() << "built";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("19"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("18, 34, 50, "));
  }
  EXPECT_THROW(resnet({.classes = 0}), Error);
  EXPECT_THROW(resnet({.channels = 0}), Error);
}

}  // namespace
}  // namespace muster::zoo
