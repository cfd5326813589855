// The perceptron against products and maxima written out by hand.
#include "muster/model/zoo/mlp.h"

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

TEST(Mlp, HasTheParametersOfItsLayers) {
  EXPECT_EQ(parameter_count(*mlp()), 784 * 2048 + 2048 + 2048 * 2048 + 2048 + 2048 * 10 + 10);
  EXPECT_EQ(parameter_count(*mlp({.inputs = 3, .hidden = {}, .classes = 2})), 3 * 2 + 2);
  const auto net = mlp({.inputs = 3, .hidden = {5}, .classes = 2});
  std::vector<std::string> names;
  for (const auto& parameter : net->named_parameters())
    names.push_back(parameter.key());
  EXPECT_EQ(names, (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
}

TEST(Mlp, IsMatricesAndMaxima) {
  const auto net = mlp({.inputs = 6, .hidden = {5}, .classes = 3});
  const auto parameters = net->named_parameters();
  const auto x = torch::randn({4, 2, 3});
  const auto hidden =
      (torch::matmul(x.reshape({4, 6}), parameters["fc1.weight"].t()) + parameters["fc1.bias"]).clamp_min(0);
  const auto expected = torch::matmul(hidden, parameters["fc2.weight"].t()) + parameters["fc2.bias"];
  EXPECT_TRUE(torch::allclose(net->forward(x), expected, 1e-5, 1e-6));
}

TEST(Mlp, GradientsReachEveryParameter) {
  expect_gradients_everywhere(*mlp({.inputs = 784, .hidden = {32, 16}, .classes = 10, .dropout = 0.1}),
                              torch::randn({7, 1, 28, 28}));
}

TEST(Mlp, DropsOutOnlyInTraining) {
  torch::manual_seed(1);
  const auto net = mlp({.inputs = 20, .hidden = {64}, .classes = 3, .dropout = 0.5});
  const auto x = torch::randn({2, 20});
  EXPECT_FALSE(same_bits(net->forward(x), net->forward(x)));
  net->eval();
  EXPECT_TRUE(same_bits(net->forward(x), net->forward(x)));
}

TEST(Mlp, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(mlp({.inputs = 0}), Error);
  EXPECT_THROW(mlp({.hidden = {16, 0}}), Error);
  EXPECT_THROW(mlp({.classes = -1}), Error);
  EXPECT_THROW(mlp({.dropout = 1}), Error);
}

}  // namespace
}  // namespace muster::zoo
