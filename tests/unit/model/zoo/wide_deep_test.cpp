// Wide and deep against the sum of its two parts, with embeddings looked up one by one.
#include "muster/model/zoo/wide_deep.h"

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

// Number, three categories, number, number, five categories.
const WideDeepOptions kOptions{.columns = {1, 3, 1, 1, 5}, .hidden = {7}, .embedding = 4, .classes = 2};

torch::Tensor rows() {
  return torch::tensor({{0.5F, 0.0F, 1.0F, 0.0F, -1.0F, 2.0F, 0.0F, 0.0F, 0.0F, 0.0F, 1.0F},
                        {1.5F, 1.0F, 0.0F, 0.0F, 0.3F, 0.1F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F},
                        // Categories that training never saw.
                        {0.0F, 0.0F, 0.0F, 0.0F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F}});
}

TEST(WideDeep, HasTheParametersOfItsParts) {
  EXPECT_EQ(parameter_count(*wide_deep(kOptions)), 11 * 2 + 2 + 3 * 4 + 5 * 4 + (3 + 8) * 7 + 7 + 7 * 2 + 2);
}

// The sum of the linear model and of the perceptron over numbers and embeddings, looked up one by one.
TEST(WideDeep, ComputesWhatThePaperSays) {
  torch::manual_seed(2);
  const auto net = wide_deep(kOptions);
  torch::NoGradGuard guard;
  auto p = net->named_parameters();
  p["wide.weight"].normal_();
  p["wide.bias"].normal_();
  const auto x = rows();
  const auto first = p["embedding0.weight"];
  const auto second = p["embedding1.weight"];
  const auto none = torch::zeros({4});
  const auto deep = torch::stack({torch::cat({x[0].slice(0, 0, 1), first[1], x[0].slice(0, 4, 6), second[4]}),
                                  torch::cat({x[1].slice(0, 0, 1), first[0], x[1].slice(0, 4, 6), second[0]}),
                                  torch::cat({x[2].slice(0, 0, 1), none, x[2].slice(0, 4, 6), none})});
  auto expected = torch::linear(deep, p["fc1.weight"], p["fc1.bias"]).relu();
  expected = torch::linear(expected, p["fc2.weight"], p["fc2.bias"]);
  expected = expected + torch::linear(x, p["wide.weight"], p["wide.bias"]);
  EXPECT_TRUE(torch::allclose(net->forward(x), expected, 1e-5, 1e-6));
}

TEST(WideDeep, GradientsReachEveryParameter) {
  const auto numbers = torch::randn({15, 1});
  const auto three = torch::eye(3).repeat({5, 1});
  const auto five = torch::eye(5).repeat({3, 1});
  expect_gradients_everywhere(*wide_deep(kOptions), torch::cat({numbers, three, numbers, numbers, five}, 1));
}

TEST(WideDeep, TakesTablesOfNumbersAloneAndOfCategoriesAlone) {
  EXPECT_EQ(wide_deep({.columns = {1, 1}})->forward(torch::randn({4, 2})).sizes(), (torch::IntArrayRef{4, 2}));
  EXPECT_EQ(wide_deep({.columns = {6}, .hidden = {}})->forward(torch::eye(6)).sizes(), (torch::IntArrayRef{6, 2}));
}

TEST(WideDeep, EmbeddingsGrowSlowlyWithTheCategories) {
  const auto parameters = wide_deep({.columns = {16, 10'000}})->named_parameters();
  EXPECT_EQ(parameters["embedding0.weight"].sizes(), (torch::IntArrayRef{16, 12}));
  EXPECT_EQ(parameters["embedding1.weight"].sizes(), (torch::IntArrayRef{10'000, 60}));
}

TEST(WideDeep, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(wide_deep({}), Error);
  EXPECT_THROW(wide_deep({.columns = {1, 0}}), Error);
  EXPECT_THROW(wide_deep({.columns = {1}, .hidden = {0}}), Error);
  EXPECT_THROW(wide_deep({.columns = {3}, .embedding = 0}), Error);
  EXPECT_THROW(wide_deep({.columns = {3}, .classes = 0}), Error);
}

}  // namespace
}  // namespace muster::zoo
