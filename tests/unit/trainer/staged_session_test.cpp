// A Sequential of one's own in stages, by one worker, and what cannot be. Several workers: examples/own_stages.cpp.
#include "muster/trainer/staged_session.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/trainer/synchronize.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

using ::testing::HasSubstr;

torch::nn::Sequential make_net() {
  torch::manual_seed(4);
  return torch::nn::Sequential({{"wide", torch::nn::Linear(6, 12)},
                                {"norm", torch::nn::BatchNorm1d(12)},
                                {"bend", torch::nn::Functional(torch::relu)},
                                {"drop", torch::nn::Dropout(0.3)},
                                {"head", torch::nn::Linear(12, 3)}});
}

torch::Tensor loss(const torch::Tensor& answer, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(answer, target);
}

std::string weights_after(const StageOptions& stages) {
  const auto dataset = testing::line_data(50);
  StagedSession session = synchronize_stages(Worker(), make_net(), compute::Sgd{.lr = 0.1, .momentum = 0.9},
                                             {.batch = 16, .lanes = 4}, stages);
  session.train_until(7, dataset, loss);
  EXPECT_EQ(session.session().cursor().step, 7U);
  EXPECT_EQ(session.describe().size(), stages.stages + 1);
  return session.session().weights_hash();
}

TEST(StagedSession, CutsASequentialAsAsked) {
  const torch::Tensor sample = torch::zeros({2, 6});
  const std::string whole = weights_after({.stages = 1, .sample = sample});
  EXPECT_EQ(weights_after({.stages = 2, .sample = sample, .cut = {"drop"}}), whole);
  EXPECT_EQ(weights_after({.stages = 2, .sample = sample, .schedule = "interleaved"}), whole);
}

TEST(StagedSession, RefusesWhatCannotBe) {
  const torch::Tensor sample = torch::zeros({2, 6});
  const auto refused = [&](const StageOptions& stages, const torch::nn::Sequential& net = make_net()) {
    try {
      synchronize_stages(Worker(), net, compute::Sgd{}, {.batch = 16, .lanes = 4}, stages);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    ADD_FAILURE() << "it was not refused";
    return std::string();
  };
  EXPECT_THAT(refused({.stages = 2}), HasSubstr("no sample"));
  EXPECT_THAT(refused({.stages = 0, .sample = sample}), HasSubstr("no rows of 0 stages"));
  EXPECT_THAT(refused({.stages = 6, .sample = sample}), HasSubstr("5 pieces cannot be cut into 6 parts"));
  EXPECT_THAT(refused({.stages = 2, .sample = sample, .cut = {"hed"}}), HasSubstr("\"head\""));
  EXPECT_THAT(refused({.stages = 2, .sample = sample, .schedule = "zigzag"}), HasSubstr("zigzag"));
  EXPECT_THAT(refused({.stages = 1, .sample = sample}, torch::nn::Sequential()), HasSubstr("without modules"));
}

}  // namespace
}  // namespace muster::trainer
