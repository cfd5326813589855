// One worker and several give the same bits; who ends it ends it for all.
#include "muster/trainer/evaluation.h"

#include <gtest/gtest.h>

#include "muster/trainer/session.h"
#include "support/errors.h"
#include "support/groups.h"
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
    EXPECT_DOUBLE_EQ(result->metric("accuracy"), accuracy);
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

TEST(Evaluation, WorkersTogetherGetTheBitsOfOneAlone) {
  // Batches that do not divide by the workers, a short last one, and fewer batches than workers.
  for (const std::uint64_t samples : {103, 40, 7}) {
    const auto dataset = testing::line_data(samples);
    const auto evaluate_with = [&](testing::BatchNormNet& net, const comm::Group& group) {
      return evaluate(net, [&](const torch::Tensor& x) { return net.forward(x); }, dataset,
                      {.batch = 10, .group = group});
    };
    const auto alone = evaluate_with(*testing::make_net<testing::BatchNormNet>(1), {});
    ASSERT_TRUE(alone);
    for (const int workers : {2, 3}) {
      std::vector<std::shared_ptr<testing::BatchNormNet>> nets;
      for (int rank = 0; rank < workers; ++rank)
        nets.push_back(testing::make_net<testing::BatchNormNet>(1));
      testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
        const auto together = evaluate_with(*nets[static_cast<std::size_t>(rank)], group);
        ASSERT_TRUE(together);
        EXPECT_EQ(together->loss, alone->loss) << workers << " workers, " << samples << " samples";
        EXPECT_EQ(together->metrics, alone->metrics);
        EXPECT_EQ(together->samples, samples);
      });
    }
  }
}

TEST(Evaluation, OneWorkerThatEndsItEndsItForAll) {
  const auto dataset = testing::line_data(100);
  std::vector<std::shared_ptr<testing::LinearNet>> nets{testing::make_net<testing::LinearNet>(1),
                                                        testing::make_net<testing::LinearNet>(1)};
  testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
    testing::LinearNet& net = *nets[static_cast<std::size_t>(rank)];
    const auto result = evaluate(net, [&](const torch::Tensor& x) { return net.forward(x); }, dataset,
                                 {.batch = 10, .group = group, .progress = [&](std::uint64_t) { return rank != 1; }});
    EXPECT_FALSE(result);
  });
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

// A source without a validation set gives an empty pointer.
TEST(Evaluation, WithoutADataSetIsAMistakeOfTheProgram) {
  auto net = testing::make_net<testing::LinearNet>(1);
  const ForwardFunction forward = [&](const torch::Tensor& x) { return net->forward(x); };
  testing::expect_error(ErrorKind::kInvalidInput, "no data set", [&] { evaluate(*net, forward, nullptr); });
  Session session(net, compute::Sgd{}, {.batch = 8});
  testing::expect_error(ErrorKind::kInvalidInput, "no data set", [&] { session.lanes(nullptr); });
}

}  // namespace
}  // namespace muster::trainer
