#include "muster/trainer/evaluation.h"

#include <gtest/gtest.h>

#include "support/small_nets.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;

TEST(Evaluation, IsTheMeanOverAllSamplesWhateverTheBatch) {
  const auto dataset = testing::line_data(103);
  auto net = testing::make_net<testing::BatchNormNet>(1);
  torch::Tensor all = torch::empty({103, 6});
  torch::Tensor target = torch::empty({103}, torch::kInt64);
  for (std::int64_t i = 0; i < 103; ++i) {
    target[i] = dataset->read(static_cast<std::uint64_t>(i), {all.data_ptr<float>() + i * 6, 6});
  }
  net->eval();
  const torch::Tensor logits = net->forward(all);
  const double loss = F::cross_entropy(logits, target).item<double>();
  const double accuracy = logits.argmax(1).eq(target).to(torch::kFloat64).mean().item<double>();
  net->train();
  for (const std::uint64_t batch : {1, 10, 103, 1000}) {
    const auto result =
        evaluate(*net, [&](const torch::Tensor& x) { return net->forward(x); }, dataset, {.batch = batch});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->samples, 103U);
    EXPECT_NEAR(result->loss, loss, 1e-6);
    EXPECT_DOUBLE_EQ(result->accuracy, accuracy);
  }
}

TEST(Evaluation, RunsInEvaluationModeAndPutsTheModeBack) {
  const auto dataset = testing::line_data(8);
  auto net = testing::make_net<testing::BatchNormNet>(1);
  net->train();
  evaluate(
      *net,
      [&](const torch::Tensor& x) {
        EXPECT_FALSE(net->is_training());
        EXPECT_FALSE(torch::GradMode::is_enabled());
        return net->forward(x);
      },
      dataset);
  EXPECT_TRUE(net->is_training());
  EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), 0);
}

TEST(Evaluation, AnObserverCanEndIt) {
  const auto dataset = testing::line_data(100);
  auto net = testing::make_net<testing::LinearNet>(1);
  std::vector<std::uint64_t> seen;
  const auto result = evaluate(*net, [&](const torch::Tensor& x) { return net->forward(x); }, dataset,
                               {.batch = 30, .progress = [&](std::uint64_t done) {
                                  seen.push_back(done);
                                  return done < 60;
                                }});
  EXPECT_FALSE(result);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{30, 60}));
}

}  // namespace
}  // namespace muster::trainer
