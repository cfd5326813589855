// Blocks that are computed a second time in backward, against the same blocks without: equal bits of gradients and
// buffers, and less memory.
#include "muster/model/recompute.h"

#include <functional>

#include <gtest/gtest.h>

#include "muster/model/profile.h"
#include "muster/model/zoo/resnet.h"
#include "muster/model/zoo/transformer.h"
#include "muster/model/zoo/wide_resnet.h"
#include "zoo/net_properties.h"

namespace muster::model {
namespace {

using Make = std::function<std::shared_ptr<Net>(bool recompute)>;

struct Trained {
  std::shared_ptr<Net> net;
  torch::Tensor scores;
  torch::Tensor random;  // the next number of torch's generator
};

// Two passes, as in training: buffers and gradients accumulate.
Trained train(const Make& make, bool recompute, const torch::Tensor& x) {
  torch::manual_seed(1);
  Trained trained{make(recompute), {}, {}};
  torch::manual_seed(2);
  for (int pass = 0; pass < 2; ++pass) {
    trained.scores = trained.net->forward(x);
    const torch::Tensor rows = trained.scores.reshape({-1, trained.scores.size(-1)});
    torch::nn::functional::cross_entropy(rows, torch::arange(rows.size(0)).remainder(rows.size(1))).backward();
  }
  trained.random = torch::rand({1});
  return trained;
}

void expect_same_bits(const Make& make, const torch::Tensor& x) {
  const Trained plain = train(make, false, x);
  const Trained again = train(make, true, x);
  EXPECT_TRUE(torch::equal(plain.scores, again.scores));
  EXPECT_TRUE(torch::equal(plain.random, again.random));
  const auto parameters = again.net->named_parameters();
  for (const auto& parameter : plain.net->named_parameters())
    EXPECT_TRUE(torch::equal(parameter.value().grad(), parameters[parameter.key()].grad())) << parameter.key();
  const auto buffers = again.net->named_buffers();
  for (const auto& buffer : plain.net->named_buffers())
    EXPECT_TRUE(torch::equal(buffer.value(), buffers[buffer.key()])) << buffer.key();
}

TEST(Recompute, GivesTheSameBitsForBatchNormBlocks) {
  const auto x = torch::randn({4, 3, 16, 16});
  for (const int depth : {20, 50}) {
    expect_same_bits(
        [&](bool recompute) { return zoo::resnet({.depth = depth, .classes = 5, .recompute = recompute}); }, x);
  }
}

TEST(Recompute, GivesTheSameBitsWithDropout) {
  expect_same_bits(
      [](bool recompute) {
        return zoo::wide_resnet({.depth = 16, .factor = 1, .dropout = 0.3, .recompute = recompute});
      },
      torch::randn({3, 3, 16, 16}));
  expect_same_bits(
      [](bool recompute) {
        return zoo::transformer({.layers = 3, .width = 16, .context = 12, .dropout = 0.2, .recompute = recompute});
      },
      torch::randint(256, {3, 12}, torch::kInt64));
}

TEST(Recompute, EvaluationIsThePlainForward) {
  torch::manual_seed(1);
  const auto plain = zoo::resnet({.depth = 20, .classes = 5});
  torch::manual_seed(1);
  const auto again = zoo::resnet({.depth = 20, .classes = 5, .recompute = true});
  plain->eval();
  again->eval();
  const auto x = torch::randn({2, 3, 8, 8});
  const torch::NoGradGuard guard;
  const auto scores = again->forward(x);
  EXPECT_TRUE(torch::equal(plain->forward(x), scores));
  EXPECT_FALSE(scores.requires_grad());
}

class Doubling final : public torch::nn::Module {
 public:
  Doubling()
      : weight(register_parameter("weight", torch::full({3}, 2.0))),
        unused(register_parameter("unused", torch::ones({2}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    ++calls;
    return (x * weight).square();
  }
  torch::Tensor weight, unused;
  int calls = 0;
};

torch::Tensor through(const std::shared_ptr<Doubling>& block, const torch::Tensor& x) {
  return recomputed(
      block, [block](const torch::Tensor& in) { return block->forward(in); }, x);
}

TEST(Recompute, ComputesTwiceAndGivesTheGradientOfInputAndParameters) {
  const auto block = std::make_shared<Doubling>();
  const auto x = torch::tensor({1.0F, 2.0F, 3.0F}).set_requires_grad(true);
  through(block, x).sum().backward();
  EXPECT_EQ(block->calls, 2);
  EXPECT_TRUE(torch::allclose(x.grad(), 8 * x.detach()));                       // 2 w^2 x
  EXPECT_TRUE(torch::allclose(block->weight.grad(), 4 * x.detach().square()));  // 2 w x^2
  EXPECT_FALSE(block->unused.grad().defined());
}

TEST(Recompute, LeavesFrozenParametersAndInputsWithoutGradient) {
  const auto block = std::make_shared<Doubling>();
  const auto x = torch::ones({3});
  through(block, x).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(block->weight.grad().defined());
  block->weight.set_requires_grad(false);
  block->unused.set_requires_grad(false);
  EXPECT_FALSE(through(block, x).requires_grad());
  EXPECT_EQ(block->calls, 3);
}

TEST(Recompute, CallsTheHooksOfParameters) {
  const auto block = std::make_shared<Doubling>();
  int calls = 0;
  block->weight.register_hook([&](const torch::Tensor& gradient) {
    ++calls;
    return gradient * 10;
  });
  through(block, torch::ones({3})).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(torch::allclose(block->weight.grad(), torch::full({3}, 40.0)));
}

TEST(Recompute, GoesBackwardTwiceOnlyWhereTheGraphIsKept) {
  const auto block = std::make_shared<Doubling>();
  const auto x = torch::ones({3}).set_requires_grad(true);
  const auto sum = through(block, x).sum();
  sum.backward({}, /*retain_graph=*/true);
  sum.backward();
  EXPECT_TRUE(torch::allclose(x.grad(), torch::full({3}, 16.0)));
  EXPECT_ANY_THROW(sum.backward());
}

TEST(Recompute, HoldsMuchLess) {
  ModelOptions options{.name = "resnet110", .input_shape = {3, 32, 32}};
  const auto plain = measure_step_memory(options).of(32);
  options.recompute = true;
  EXPECT_LT(measure_step_memory(options).of(32), plain / 3);
}

}  // namespace
}  // namespace muster::model
