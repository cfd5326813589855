// LSTM and GRU: what a position may see, and the first weights that the literature recommends.
#include "muster/model/zoo/recurrent.h"

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

class RecurrentCell : public ::testing::TestWithParam<Cell> {};

TEST_P(RecurrentCell, HasTheParametersOfItsLayers) {
  const std::int64_t gates = GetParam() == Cell::kLstm ? 4 : 3;
  const std::int64_t expected =
      30 * 5 + gates * (7 * 5 + 7 * 7 + 2 * 7) + gates * (7 * 7 + 7 * 7 + 2 * 7) + 7 * 30 + 30;
  EXPECT_EQ(parameter_count(*recurrent(
                {.cell = GetParam(), .vocabulary = 30, .embedding = 5, .width = 7, .depth = 2, .classes = 30})),
            expected);
}

TEST_P(RecurrentCell, GivesARowForEachPositionOrOneForTheSample) {
  const auto tokens = torch::randint(30, {2, 9}, torch::kInt64);
  const auto each = recurrent({.cell = GetParam(), .vocabulary = 30, .width = 8, .classes = 30});
  EXPECT_EQ(each->forward(tokens).sizes(), (torch::IntArrayRef{2, 9, 30}));
  EXPECT_EQ(each->forward(tokens.to(torch::kFloat32)).sizes(), (torch::IntArrayRef{2, 9, 30}));
  const auto one = recurrent({.cell = GetParam(), .vocabulary = 30, .width = 8, .classes = 4, .each_position = false});
  EXPECT_EQ(one->forward(tokens).sizes(), (torch::IntArrayRef{2, 4}));
  const auto series =
      recurrent({.cell = GetParam(), .vocabulary = 0, .features = 3, .width = 8, .classes = 4, .each_position = false});
  EXPECT_EQ(series->forward(torch::randn({2, 9, 3})).sizes(), (torch::IntArrayRef{2, 4}));
}

TEST_P(RecurrentCell, APositionSeesOnlyThoseBeforeIt) {
  const auto net = recurrent({.cell = GetParam(), .vocabulary = 30, .width = 8, .classes = 30});
  const auto tokens = torch::randint(30, {1, 9}, torch::kInt64);
  auto other = tokens.clone();
  other[0][5] = (tokens[0][5].item<std::int64_t>() + 1) % 30;
  const auto a = net->forward(tokens);
  const auto b = net->forward(other);
  EXPECT_TRUE(torch::equal(a.slice(1, 0, 5), b.slice(1, 0, 5)));
  EXPECT_FALSE(torch::equal(a.slice(1, 5, 6), b.slice(1, 5, 6)));
}

TEST_P(RecurrentCell, GradientsReachEveryParameter) {
  const auto tokens = torch::arange(36).reshape({4, 9}).remainder(30);  // every token occurs
  expect_gradients_everywhere(
      *recurrent({.cell = GetParam(), .vocabulary = 30, .width = 8, .classes = 30, .dropout = 0.1}), tokens);
}

TEST_P(RecurrentCell, StartsOrthogonalWithOpenForgetGates) {
  const auto net = recurrent({.cell = GetParam(), .width = 16});
  const auto parameters = net->named_parameters();
  for (const auto& gate : parameters["rnn.weight_hh_l1"].split(16))
    EXPECT_TRUE(torch::allclose(gate.matmul(gate.t()), torch::eye(16), 1e-4, 1e-5));
  const double glorot = std::sqrt(6.0 / (64 + 16));
  EXPECT_LE(parameters["rnn.weight_ih_l0"].abs().max().item<double>(), glorot);
  EXPECT_GT(parameters["rnn.weight_ih_l0"].abs().max().item<double>(), 0.9 * glorot);
  // What a gate sees is the sum of both biases.
  const auto bias = parameters["rnn.bias_ih_l0"] + parameters["rnn.bias_hh_l0"];
  auto expected = torch::zeros_like(bias);
  if (GetParam() == Cell::kLstm) expected.slice(0, 16, 32).fill_(1);
  EXPECT_TRUE(torch::equal(bias, expected));
}

TEST_P(RecurrentCell, DropsOutOnlyInTraining) {
  const auto net = recurrent({.cell = GetParam(), .width = 32, .depth = 1, .dropout = 0.5});
  const auto tokens = torch::randint(256, {2, 5}, torch::kInt64);
  EXPECT_FALSE(same_bits(net->forward(tokens), net->forward(tokens)));
  net->eval();
  EXPECT_TRUE(same_bits(net->forward(tokens), net->forward(tokens)));
}

INSTANTIATE_TEST_SUITE_P(Cells, RecurrentCell, ::testing::Values(Cell::kLstm, Cell::kGru));

TEST(Recurrent, RefusesWhatIsNoNetworkAndOtherBatches) {
  EXPECT_THROW(recurrent({.width = 0}), Error);
  EXPECT_THROW(recurrent({.depth = 0}), Error);
  EXPECT_THROW(recurrent({.vocabulary = 0}), Error);
  EXPECT_THROW(recurrent({.classes = 0}), Error);
  EXPECT_THROW(recurrent({.dropout = -1}), Error);
  const auto net = recurrent({.width = 4});
  EXPECT_THROW(net->forward(torch::zeros({2, 3, 4})), Error);
  EXPECT_THROW(net->forward(torch::zeros({2, 0})), Error);
}

}  // namespace
}  // namespace muster::zoo
