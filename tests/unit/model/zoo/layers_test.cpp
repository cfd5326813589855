// Norms and activations by choice, in every model that has them.
#include "muster/model/zoo/layers.h"

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/model/zoo/cnn.h"
#include "muster/model/zoo/fbnet.h"
#include "muster/model/zoo/mlp.h"
#include "muster/model/zoo/resnet.h"
#include "muster/model/zoo/wide_resnet.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

TEST(Activation, IsReluOrLeakyRelu) {
  const auto x = torch::tensor({-2.0F, 0.0F, 3.0F});
  EXPECT_TRUE(torch::equal(activate(x.clone(), Activation::kRelu), torch::tensor({0.0F, 0.0F, 3.0F})));
  EXPECT_TRUE(torch::allclose(activate(x.clone(), Activation::kLeakyRelu), torch::tensor({-0.02F, 0.0F, 3.0F})));
}

std::int64_t groups_of(const LayerOptions& options, std::int64_t channels) {
  return Norm(options, channels).module()->as<torch::nn::GroupNorm>()->options.num_groups();
}

TEST(GroupNorm, HasThirtyTwoGroupsOrFewerOfTwoChannels) {
  const LayerOptions options{.norm = NormKind::kGroup};
  EXPECT_EQ(groups_of(options, 1), 1);
  EXPECT_EQ(groups_of(options, 2), 1);
  EXPECT_EQ(groups_of(options, 9), 1);
  EXPECT_EQ(groups_of(options, 16), 8);
  EXPECT_EQ(groups_of(options, 24), 4);
  EXPECT_EQ(groups_of(options, 64), 32);
  EXPECT_EQ(groups_of(options, 2048), 32);
}

TEST(GroupNorm, TakesOnlyGroupsThatDivideTheChannels) {
  EXPECT_EQ(groups_of({.norm = NormKind::kGroup, .groups = 4}, 12), 4);
  EXPECT_THROW(Norm({.norm = NormKind::kGroup, .groups = 5}, 12), Error);
  EXPECT_THROW(Norm({.norm = NormKind::kGroup, .groups = 0}, 12), Error);
}

// A sample's scores do not depend on who else is in the batch, in training too.
TEST(GroupNorm, MakesSamplesIndependentInEveryConvolutionalModel) {
  const LayerOptions group{.norm = NormKind::kGroup};
  const std::vector<std::shared_ptr<model::Net>> nets{
      cnn({.channels = 3, .dropout = 0, .layers = group}), resnet({.depth = 18, .classes = 5, .layers = group}),
      resnet({.depth = 20, .classes = 5, .layers = group}),
      wide_resnet({.depth = 10, .factor = 2, .classes = 5, .layers = group}),
      fbnet({.variant = 'a', .classes = 5, .layers = group})};
  for (const auto& net : nets) {
    EXPECT_TRUE(net->buffers().empty());
    const auto x = torch::randn({3, 3, 28, 28});
    EXPECT_TRUE(torch::allclose(net->forward(x).slice(0, 0, 1), net->forward(x.slice(0, 0, 1)), 1e-3, 1e-4));
  }
}

TEST(GroupNorm, KeepsTheNamesOfBatchNorm) {
  const auto batch = resnet({.depth = 18});
  const auto group = resnet({.depth = 18, .layers = {.norm = NormKind::kGroup}});
  EXPECT_EQ(batch->named_parameters().keys(), group->named_parameters().keys());
}

TEST(LeakyRelu, ReachesEveryModelThatHasIt) {
  const auto outputs = [](Activation activation) {
    const LayerOptions layers{.activation = activation};
    std::vector<torch::Tensor> results;
    const auto run = [&](const std::function<std::shared_ptr<model::Net>()>& make) {
      torch::manual_seed(3);
      const auto net = make();
      // He's factor differs a little; only the activation shall.
      torch::NoGradGuard guard;
      torch::manual_seed(4);
      for (auto& parameter : net->parameters())
        parameter.normal_(0, 0.1);
      net->eval();
      results.push_back(net->forward(torch::randn({2, 3, 28, 28})));
    };
    run([&] { return mlp({.inputs = 3 * 28 * 28, .hidden = {8}, .activation = activation}); });
    run([&] { return cnn({.channels = 3, .layers = layers}); });
    run([&] { return resnet({.depth = 20, .layers = layers}); });
    run([&] { return wide_resnet({.depth = 10, .factor = 1, .layers = layers}); });
    run([&] { return fbnet({.variant = 'c', .classes = 10, .layers = layers}); });
    return results;
  };
  const auto relu = outputs(Activation::kRelu);
  const auto leaky = outputs(Activation::kLeakyRelu);
  for (std::size_t i = 0; i < relu.size(); ++i) {
    EXPECT_EQ(relu[i].sizes(), leaky[i].sizes());
    EXPECT_FALSE(torch::equal(relu[i], leaky[i])) << i;
  }
}

TEST(LeakyRelu, StartsWithHesVarianceForItsSlope) {
  torch::manual_seed(1);
  auto weight = torch::empty({200, 100, 3, 3});
  start_as_he(weight, Activation::kLeakyRelu);
  EXPECT_NEAR(weight.pow(2).mean().item<double>(), 2.0 / (1 + 1e-4) / (200 * 9), 0.01 * 2.0 / (200 * 9));
}

}  // namespace
}  // namespace muster::zoo
