// Held against the authors' numbers of parameters, and against the definition of the channel shuffle.
#include "muster/model/zoo/fbnet.h"

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

// The authors' table of their published networks says 4.3, 4.8 and 5.5 millions.
TEST(FbNet, HasAboutThePublishedNumbersOfParameters) {
  EXPECT_EQ(parameter_count(*fbnet({.variant = 'a'})), 4'321'464);
  EXPECT_EQ(parameter_count(*fbnet({.variant = 'b'})), 4'813'048);
  EXPECT_EQ(parameter_count(*fbnet({.variant = 'c'})), 5'572'200);
}

class FbNetVariant : public ::testing::TestWithParam<char> {};

TEST_P(FbNetVariant, TakesImagesOfAnySizeAndGradientsReachEveryParameter) {
  const auto net = fbnet({.variant = GetParam(), .classes = 7, .channels = 2});
  expect_gradients_everywhere(*net, torch::randn({4, 2, 40, 32}));
  net->eval();
  EXPECT_EQ(net->forward(torch::randn({1, 2, 33, 65})).sizes(), (torch::IntArrayRef{1, 7}));
}

TEST_P(FbNetVariant, LeavesItsInputAlone) {
  const auto net = fbnet({.variant = GetParam(), .classes = 3});
  const auto x = torch::randn({2, 3, 32, 32});
  const auto before = x.clone();
  net->forward(x);
  EXPECT_TRUE(same_bits(x, before));
}

INSTANTIATE_TEST_SUITE_P(Variants, FbNetVariant, ::testing::Values('a', 'b', 'c'));

TEST(FbNet, IsOfDepthwiseAndGroupedConvolutions) {
  const auto parameters = fbnet({.variant = 'a'})->named_parameters();
  // Block 12: 64 channels, no expansion, 5x5, two groups; block 1 was left out by the search.
  EXPECT_EQ(parameters["block12.expand.conv.weight"].sizes(), (torch::IntArrayRef{64, 32, 1, 1}));
  EXPECT_EQ(parameters["block12.depthwise.conv.weight"].sizes(), (torch::IntArrayRef{64, 1, 5, 5}));
  EXPECT_EQ(parameters["block12.project.conv.weight"].sizes(), (torch::IntArrayRef{64, 32, 1, 1}));
  EXPECT_FALSE(parameters.contains("block1.expand.conv.weight"));
}

// Channel 2j behind the shuffle is number j of group 0, and 2j + 1 number j of group 1.
TEST(FbNet, ShufflesTheChannelsOfGroupedBlocks) {
  torch::manual_seed(1);
  const auto net = fbnet({.variant = 'a', .classes = 4});
  torch::NoGradGuard guard;
  net->eval();
  auto parameters = net->named_parameters();
  const auto x = torch::rand({1, 3, 64, 64});
  const auto with = [&](std::int64_t channel) {
    // Only `channel` of the first convolution of block 12 is not zero.
    auto& weight = parameters["block12.expand.conv.weight"];
    const auto saved = weight.clone();
    for (std::int64_t c = 0; c < 64; ++c) {
      if (c != channel) weight[c].zero_();
    }
    const auto scores = net->forward(x);
    weight.copy_(saved);
    return scores;
  };
  // Channel 40 is number 8 of group 1 and so becomes channel 17 of the depthwise convolution: cutting that one off is
  // the same as cutting off channel 40, and cutting off 40 itself changes nothing.
  auto& depthwise = parameters["block12.depthwise.conv.weight"];
  const auto before = with(40);
  depthwise[40].zero_();
  EXPECT_TRUE(torch::equal(with(40), before));
  depthwise[17].zero_();
  EXPECT_FALSE(torch::equal(with(40), before));
  EXPECT_TRUE(torch::equal(with(40), with(-1)));
}

TEST(FbNet, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(fbnet({.variant = 'd'}), Error);
  EXPECT_THROW(fbnet({.classes = 0}), Error);
  EXPECT_THROW(fbnet({.channels = 0}), Error);
}

}  // namespace
}  // namespace muster::zoo
