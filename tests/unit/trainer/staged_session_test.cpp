// Models of one's own in stages, by one worker, and what cannot be. Several workers: examples/own_stages.cpp.
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

// No Sequential: blocks of several kinds, some of them in a list, so that their names are others than those of the
// model.
struct OwnNet final : torch::nn::Module {
  OwnNet() {
    stem = register_module("stem", torch::nn::Linear(6, 12));
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i)
      layers->push_back(torch::nn::Sequential(torch::nn::Linear(12, 12), torch::nn::BatchNorm1d(12),
                                              torch::nn::Functional(torch::relu), torch::nn::Dropout(0.3)));
    head = register_module("head", torch::nn::Linear(12, 3));
  }
  Blocks blocks() {
    return {{"stem", stem},
            {"first", layers->ptr<torch::nn::SequentialImpl>(0)},
            {"second", layers->ptr<torch::nn::SequentialImpl>(1)},
            {"third", layers->ptr<torch::nn::SequentialImpl>(2)},
            {"head", head}};
  }
  torch::nn::Linear stem{nullptr}, head{nullptr};
  torch::nn::ModuleList layers{nullptr};
};

TEST(StagedSession, CutsAnyModuleThatNamesItsBlocks) {
  const auto after = [](const StageOptions& stages) {
    const auto dataset = testing::line_data(50);
    const auto net = testing::make_net<OwnNet>(4);
    StagedSession session = synchronize_stages(Worker(), net, net->blocks(), compute::Sgd{.lr = 0.1, .momentum = 0.9},
                                               {.batch = 16, .lanes = 4}, stages);
    session.train_until(7, dataset, loss);
    return session.session().weights_hash();
  };
  const torch::Tensor sample = torch::zeros({2, 6});
  const std::string whole = after({.stages = 1, .sample = sample});
  EXPECT_EQ(after({.stages = 2, .sample = sample, .cut = {"third"}}), whole);
  EXPECT_EQ(after({.stages = 3, .sample = sample}), whole);
}

TEST(StagedSession, RefusesBlocksThatAreNotTheModel) {
  const auto net = testing::make_net<OwnNet>(4);
  const auto refused = [&](const Blocks& blocks) {
    try {
      synchronize_stages(Worker(), net, blocks, compute::Sgd{}, {.batch = 16, .lanes = 4},
                         {.stages = 2, .sample = torch::zeros({2, 6})});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    ADD_FAILURE() << "it was not refused";
    return std::string();
  };
  EXPECT_THAT(refused({}), HasSubstr("there are no blocks"));
  EXPECT_THAT(refused({{"stem", net->stem}, {"head", torch::nn::Linear(12, 3)}}),
              HasSubstr("block head is no module of the model"));
  EXPECT_THAT(refused({{"stem", net->stem}, {"stem", net->head}}), HasSubstr("\"stem\" is no name for a block"));
  EXPECT_THAT(refused({{"stem", net->stem}, {"head", net->head}}),
              HasSubstr("parameter layers.0.0.weight belongs to no piece of the model"));
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
