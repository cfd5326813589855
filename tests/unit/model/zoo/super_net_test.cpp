// The super-net against the nets that it stands for, shares as probabilities, and time as something with a gradient.
#include "muster/model/zoo/super_net.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "muster/model/zoo/fbnet.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

const BlockNet kOpen = parse_block_net("fbnet-4-8s2-8-8k3e1-16");

std::vector<torch::Tensor> all_of(const std::vector<std::size_t>& chosen) {
  std::vector<torch::Tensor> shares;
  const auto choices = choices_of(kOpen);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    shares.push_back(torch::zeros({static_cast<std::int64_t>(choices[i].size())}));
    shares.back()[static_cast<std::int64_t>(chosen[i])] = 1;
  }
  return shares;
}

// With one choice at each place it is the net of these choices: "block1.k3e6.expand" is its "block1.expand".
TEST(SuperNetTest, WithAllOfOneChoiceItIsThatNet) {
  torch::manual_seed(1);
  SuperNet super(kOpen, 1, 3);
  super.eval();
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({2, 1, 9, 9});
  for (const std::vector<std::size_t>& chosen : {std::vector<std::size_t>{3, 5}, {4, 8}}) {
    const BlockNet plan = filled(kOpen, chosen);
    const auto net = fbnet({.blocks = to_string(plan), .classes = 3, .channels = 1});
    net->eval();
    const auto of_super = super.named_parameters();
    const auto choices = choices_of(kOpen);
    std::map<std::string, std::string> places;
    std::int64_t number = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (choices[i][chosen[i]])
        places[fmt::format("block{}.", ++number)] = fmt::format("block{}.{}.", i + 1, to_string(choices[i][chosen[i]]));
    }
    places[fmt::format("block{}.", ++number)] = "block3.k3e1.";
    for (auto& parameter : net->named_parameters()) {
      std::string name = parameter.key();
      for (const auto& [own, supers] : places) {
        if (name.starts_with(own)) {
          name = supers + name.substr(own.size());
          break;
        }
      }
      ASSERT_TRUE(of_super.contains(name)) << name;
      parameter.value().copy_(of_super[name]);
    }
    EXPECT_TRUE(torch::allclose(super.forward(x, all_of(chosen)), net->forward(x), 1e-5, 1e-6)) << to_string(plan);
  }
}

TEST(SuperNetTest, GradientsReachWeightsAndShares) {
  torch::manual_seed(1);
  SuperNet super(kOpen, 1, 3);
  BlockShares shares(kOpen);
  torch::nn::functional::cross_entropy(super.forward(torch::randn({4, 1, 9, 9}), shares.draw(1)),
                                       torch::tensor({0, 1, 2, 0}))
      .backward();
  for (const auto& parameter : super.named_parameters())
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
  for (const auto& parameter : shares.named_parameters())
    EXPECT_GT(parameter.value().grad().abs().sum().item<float>(), 0) << parameter.key();
}

TEST(SuperNetTest, SharesGoToOneChoiceWhenItGetsCold) {
  BlockShares shares(kOpen);
  {
    const torch::NoGradGuard no_grad;
    shares.named_parameters()["place2"][7] = 20;
  }
  EXPECT_EQ(shares.chosen(), (std::vector<std::size_t>{0, 7}));
  EXPECT_GT(shares.probabilities()[1][7], 0.99);
  torch::manual_seed(1);
  for (const torch::Tensor& drawn : shares.draw(0.01)) {
    EXPECT_NEAR(drawn.sum().item<float>(), 1, 1e-5);
    EXPECT_GT(drawn.max().item<float>(), 0.99);
  }
  EXPECT_LT(shares.draw(100)[0].max().item<float>(), 0.2);
  EXPECT_TRUE(torch::isfinite(shares.draw(1e-3)[1]).all().item<bool>());
}

TEST(SuperNetTest, TimeIsTheTablesByShares) {
  LatencyTable table;
  table.net = kOpen;
  table.rest_ms = 1;
  table.choices_ms = {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 1, 1, 1, 1, 1, 0}};
  EXPECT_FLOAT_EQ(expected_ms(table, all_of({2, 8})).item<float>(), 4);
  EXPECT_FLOAT_EQ(expected_ms(table, all_of({7, 0})).item<float>(), 10);
  BlockShares shares(kOpen);
  expected_ms(table, shares.draw(1)).backward();
  EXPECT_GT(shares.named_parameters()["place1"].grad().abs().sum().item<float>(), 0);
}

// The published nets are made of the same blocks.
TEST(SuperNetTest, ANetByItsWordsHasTheBlocksOfThePublishedOne) {
  const auto net = fbnet({.blocks = "fbnet-16s2-24k3e3s2-24k3e1-32k5e6s2-1504", .classes = 10, .channels = 3});
  expect_gradients_everywhere(*net, torch::randn({4, 3, 40, 32}));
  EXPECT_EQ(net->named_parameters()["block1.expand.conv.weight"].sizes(), (torch::IntArrayRef{48, 16, 1, 1}));
}

}  // namespace
}  // namespace muster::zoo
