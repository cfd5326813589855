// The network layer by layer in the textbook's order, against the faster order that it computes in.
#include "muster/model/zoo/cnn.h"

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

TEST(Cnn, HasTheParametersOfItsLayers) {
  const CnnOptions o{.channels = 3, .height = 9, .width = 13, .classes = 5, .filters = {4, 6}, .hidden = 7};
  const std::int64_t features = 6 * 2 * 3;
  EXPECT_EQ(parameter_count(*cnn(o)), 3 * 4 * 25 + 2 * 4 + 4 * 6 * 9 + 2 * 6 + features * 7 + 7 + 7 * 5 + 5);
}

TEST(Cnn, TakesImagesFromTheSmallestOn) {
  for (const auto& size : std::vector<std::array<std::int64_t, 3>>{{1, 8, 8}, {1, 28, 28}, {3, 32, 32}, {2, 9, 31}}) {
    const auto net = cnn({.channels = size[0], .height = size[1], .width = size[2], .classes = 10});
    EXPECT_EQ(net->forward(torch::randn({3, size[0], size[1], size[2]})).sizes(), (torch::IntArrayRef{3, 10}));
  }
}

// Layer by layer in the textbook's order, with ReLU before pooling.
TEST(Cnn, ComputesWhatTheTextbookSays) {
  const auto net = cnn({.height = 12, .width = 12});
  const auto x = torch::randn({4, 1, 12, 12});
  auto parameters = net->named_parameters();
  auto buffers = net->named_buffers();
  net->eval();
  const auto norm = [&](const torch::Tensor& in, const std::string& n) {
    return torch::relu(torch::batch_norm(in, parameters["bn" + n + ".weight"], parameters["bn" + n + ".bias"],
                                         buffers["bn" + n + ".running_mean"], buffers["bn" + n + ".running_var"], false,
                                         0.1, 1e-5, false));
  };
  auto expected = norm(torch::conv2d(x, parameters["conv1.weight"], {}, 2, 2), "1");
  expected = torch::max_pool2d(norm(torch::conv2d(expected, parameters["conv2.weight"], {}, 1, 1), "2"), 2).flatten(1);
  expected = torch::relu(torch::linear(expected, parameters["fc1.weight"], parameters["fc1.bias"]));
  expected = torch::linear(expected, parameters["fc2.weight"], parameters["fc2.bias"]);
  EXPECT_TRUE(torch::allclose(net->forward(x), expected, 1e-5, 1e-6));
}

TEST(Cnn, GradientsReachEveryParameter) {
  expect_gradients_everywhere(*cnn(), torch::randn({11, 1, 28, 28}));
}

TEST(Cnn, DropsOutOnlyInTraining) {
  torch::manual_seed(1);
  const auto net = cnn({.dropout = 0.5});
  const auto x = torch::randn({2, 1, 28, 28});
  EXPECT_FALSE(same_bits(net->forward(x), net->forward(x)));
  net->eval();
  EXPECT_TRUE(same_bits(net->forward(x), net->forward(x)));
}

TEST(Cnn, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(cnn({.height = 7}), Error);
  EXPECT_THROW(cnn({.width = 7}), Error);
  EXPECT_THROW(cnn({.channels = 0}), Error);
  EXPECT_THROW(cnn({.filters = {16, 0}}), Error);
  EXPECT_THROW(cnn({.hidden = 0}), Error);
  EXPECT_THROW(cnn({.dropout = -0.1}), Error);
}

}  // namespace
}  // namespace muster::zoo
