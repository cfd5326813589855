// Workers with a part of the batch each, against torch's batch norm over the whole of it.
#include "muster/model/sync_batch_norm.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/groups.h"

namespace muster::model {
namespace {

using testing::Network;
using testing::run_group;

struct Result {
  torch::Tensor output;
  torch::Tensor gradient;  // of the input
  torch::Tensor weight_gradient;
  torch::Tensor bias_gradient;
  torch::Tensor running_mean;
  torch::Tensor running_var;
  std::int64_t batches = 0;
};

template <typename Norm>
Result run(Norm& norm, const torch::Tensor& input, const torch::Tensor& factor, bool in_place) {
  torch::Tensor x = input.clone().requires_grad_();
  torch::Tensor y;
  for (int pass = 0; pass < 2; ++pass)  // running statistics of several batches
    y = norm->forward(x * (1 + pass));
  Result result;
  result.output = y.detach().clone();
  if (in_place) y = y.relu_();  // as the zoo does to the output
  // A gradient that differs from value to value: a plain sum would give zero.
  (y * factor).sum().backward();
  result.gradient = x.grad();
  if (norm->options.affine()) {
    result.weight_gradient = norm->weight.grad();
    result.bias_gradient = norm->bias.grad();
  }
  if (norm->options.track_running_stats()) {
    result.running_mean = norm->running_mean;
    result.running_var = norm->running_var;
    result.batches = norm->num_batches_tracked.template item<std::int64_t>();
  }
  return result;
}

template <typename Norm>
void set_weights(Norm& norm) {
  if (!norm->options.affine()) return;
  const torch::NoGradGuard no_grad;
  norm->weight.copy_(torch::tensor({0.5F, 2.0F, -1.0F}));
  norm->bias.copy_(torch::tensor({0.1F, 0.0F, -0.3F}));
}

void expect_near(const torch::Tensor& ours, const torch::Tensor& theirs, const char* what) {
  ASSERT_EQ(ours.defined(), theirs.defined()) << what;
  if (!theirs.defined()) return;
  EXPECT_TRUE(torch::allclose(ours, theirs, 1e-5, 1e-5)) << what << ": " << (ours - theirs).abs().max().item<double>();
}

// `shares`: samples of each worker; they add up to the batch.
void compare(const std::vector<std::int64_t>& shares, const torch::nn::BatchNormOptions& options, Network network,
             bool channels_last = false, bool in_place = false) {
  torch::manual_seed(4);
  std::int64_t samples = 0;
  for (const std::int64_t share : shares)
    samples += share;
  torch::Tensor input = torch::randn({samples, 3, 4, 5}) * 2 + torch::tensor({10.0F, 0.0F, -3.0F}).view({1, 3, 1, 1});
  if (channels_last) input = input.contiguous(torch::MemoryFormat::ChannelsLast);
  const torch::Tensor factor = torch::randn({samples, 3, 4, 5});
  torch::nn::BatchNorm2d plain(options);
  set_weights(plain);
  const Result whole = run(plain, input, factor, in_place);

  const auto workers = static_cast<int>(shares.size());
  std::vector<Result> parts(shares.size());
  run_group(workers, network, [&](int rank, comm::Group group) {
    const auto index = static_cast<std::size_t>(rank);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < index; ++i)
      first += shares[i];
    SyncBatchNorm2d norm(options, group);
    set_weights(norm);
    parts[index] = run(norm, input.narrow(0, first, shares[index]), factor.narrow(0, first, shares[index]), in_place);
    group.barrier();
  });

  std::vector<torch::Tensor> outputs;
  std::vector<torch::Tensor> gradients;
  torch::Tensor weight_gradient = whole.weight_gradient.defined() ? torch::zeros({3}) : torch::Tensor();
  torch::Tensor bias_gradient = whole.bias_gradient.defined() ? torch::zeros({3}) : torch::Tensor();
  for (const Result& part : parts) {
    outputs.push_back(part.output);
    gradients.push_back(part.gradient);
    if (weight_gradient.defined()) weight_gradient += part.weight_gradient;
    if (bias_gradient.defined()) bias_gradient += part.bias_gradient;
    expect_near(part.running_mean, whole.running_mean, "running mean");
    expect_near(part.running_var, whole.running_var, "running variance");
    EXPECT_EQ(part.batches, whole.batches);
  }
  expect_near(torch::cat(outputs), whole.output, "output");
  expect_near(torch::cat(gradients), whole.gradient, "gradient");
  // Sums over 20 values a sample: their rounding is larger.
  if (weight_gradient.defined()) {
    EXPECT_TRUE(torch::allclose(weight_gradient, whole.weight_gradient, 1e-5, 1e-4));
    EXPECT_TRUE(torch::allclose(bias_gradient, whole.bias_gradient, 1e-5, 1e-4));
  }
}

TEST(SyncBatchNorm, SeveralWorkersAreOneProcessWithTheWholeBatch) {
  const torch::nn::BatchNormOptions plain(3);
  compare({4, 4}, plain, Network::kShm);
  compare({3, 1, 2}, plain, Network::kShm);                            // unequal shares, and a single sample
  if (comm::gloo_available()) compare({3, 2}, plain, Network::kGloo);  // connect_test says why where it is not
  compare({4, 3}, plain, Network::kShm, /*channels_last=*/true);
  compare({4, 3}, plain, Network::kShm, false, /*in_place=*/true);
}

TEST(SyncBatchNorm, KnowsTheOptionsOfBatchNorm) {
  compare({2, 3}, torch::nn::BatchNormOptions(3).momentum(c10::nullopt), Network::kShm);
  compare({2, 3}, torch::nn::BatchNormOptions(3).momentum(0.5).eps(1e-2), Network::kShm);
  compare({2, 3}, torch::nn::BatchNormOptions(3).affine(false), Network::kShm);
  compare({2, 3}, torch::nn::BatchNormOptions(3).track_running_stats(false), Network::kShm);
}

TEST(SyncBatchNorm, AloneIsBatchNormBitForBit) {
  torch::manual_seed(4);
  const torch::Tensor input = torch::randn({5, 3, 4, 5});
  const torch::Tensor factor = torch::randn({5, 3, 4, 5});
  torch::nn::BatchNorm2d plain(3);
  SyncBatchNorm2d ours{torch::nn::BatchNormOptions(3)};
  EXPECT_FALSE(ours->is_synchronized());
  const Result theirs = run(plain, input, factor, false);
  const Result alone = run(ours, input, factor, false);
  EXPECT_TRUE(torch::equal(alone.output, theirs.output));
  EXPECT_TRUE(torch::equal(alone.gradient, theirs.gradient));
  EXPECT_TRUE(torch::equal(alone.running_var, theirs.running_var));
}

TEST(SyncBatchNorm, EvaluationWaitsForNobody) {
  // Only rank 0 evaluates: a collective would wait for rank 1 until its deadline.
  run_group(2, Network::kShm, [](int rank, comm::Group group) {
    SyncBatchNorm2d norm(torch::nn::BatchNormOptions(3), group);
    torch::nn::BatchNorm2d plain(3);
    norm->eval();
    plain->eval();
    const torch::Tensor input = torch::ones({2, 3, 1, 1}) * 7;
    if (rank == 0) {
      EXPECT_TRUE(torch::equal(norm->forward(input), plain->forward(input)));
    }
    group.barrier();
  });
}

TEST(SynchronizeBatchNorm, FindsEveryLayerOfAModel) {
  struct Model : torch::nn::Module {};
  const auto inner = std::make_shared<Model>();
  inner->register_module("norm", SyncBatchNorm2d(3));
  const auto net = std::make_shared<Model>();
  net->register_module("inner", inner);
  net->register_module("plain", torch::nn::BatchNorm2d(3));
  net->register_module("norm", SyncBatchNorm2d(3));
  run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    if (rank == 0) {
      EXPECT_FALSE(has_synchronized_batch_norm(*net));
      EXPECT_EQ(synchronize_batch_norm(*net, group), 2U);
      EXPECT_TRUE(has_synchronized_batch_norm(*net));
      EXPECT_EQ(synchronize_batch_norm(*net, {}), 2U);
      EXPECT_FALSE(has_synchronized_batch_norm(*net));
    }
    group.barrier();
  });
}

}  // namespace
}  // namespace muster::model
