// Blocks against a pipeline that is played here: the same lane, cut at any block.
#include "muster/model/block.h"

#include <gtest/gtest.h>

#include "muster/model/zoo/transformer.h"
#include "muster/model/zoo/wide_resnet.h"

namespace muster::model {
namespace {

constexpr std::uint64_t kLane = 12345;

std::vector<std::shared_ptr<torch::nn::Module>> dropouts(std::size_t count) {
  std::vector<std::shared_ptr<torch::nn::Module>> blocks;
  for (std::size_t i = 0; i < count; ++i)
    blocks.push_back(std::make_shared<torch::nn::DropoutImpl>(0.5));
  return blocks;
}

torch::Tensor run(const std::vector<std::shared_ptr<torch::nn::Module>>& blocks, std::size_t first, std::size_t last,
                  torch::Tensor x, int draws = 0) {
  for (std::size_t i = first; i < last; ++i) {
    x = run_block(
        blocks[i],
        [&](const torch::Tensor& in) {
          const torch::Tensor kept = torch::dropout(in, 0.5, blocks[i]->is_training());
          if (draws > 0) torch::rand({draws});
          return kept;
        },
        x, false);
  }
  return x;
}

// As a pipeline computes it: the second process knows the lane, the number of its first block and what came out of the
// one before.
TEST(Block, ALaneThroughTwoProcessesGivesTheSameBits) {
  const auto blocks = dropouts(6);
  const torch::Tensor x = torch::ones({1000});
  torch::manual_seed(kLane);
  const torch::Tensor whole = run(blocks, 0, 6, x);
  for (const std::size_t cut : {1U, 2U, 5U}) {
    torch::manual_seed(kLane);
    const torch::Tensor middle = run(blocks, 0, cut, x);
    torch::manual_seed(777);
    torch::rand({99});
    torch::manual_seed(block_seed(kLane, cut));
    EXPECT_TRUE(torch::equal(run(blocks, cut, 6, middle), whole)) << cut;
  }
  torch::manual_seed(block_seed(kLane, 1));
  EXPECT_FALSE(torch::equal(run(blocks, 0, 6, x), whole)) << "another block's numbers";
}

TEST(Block, WhatOneDrawsDoesNotChangeTheOthers) {
  const auto blocks = dropouts(3);
  const torch::Tensor x = torch::ones({1000});
  torch::manual_seed(kLane);
  const torch::Tensor few = run(blocks, 0, 3, x);
  torch::manual_seed(kLane);
  torch::rand({5});
  EXPECT_TRUE(torch::equal(run(blocks, 0, 3, x, 17), few));
  // And they are not the same numbers in every block.
  EXPECT_NEAR(few.count_nonzero().item<double>(), 125, 60);
}

TEST(Block, OneThatDoesNotTrainLeavesTheGeneratorAlone) {
  const auto blocks = dropouts(2);
  for (const auto& block : blocks)
    block->eval();
  torch::manual_seed(kLane);
  const torch::Tensor expected = torch::rand({3});
  torch::manual_seed(kLane);
  run(blocks, 0, 2, torch::ones({10}));
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected));
}

// The models with blocks use them: where the generator stands after a forward says how many were entered.
TEST(Block, TheZoosModelsEnterTheirBlocks) {
  const auto seed_after = [](const std::shared_ptr<Net>& net, const torch::Tensor& x) {
    torch::manual_seed(kLane);
    net->forward(x);
    return at::detail::getDefaultCPUGenerator().current_seed();
  };
  const auto transformer =
      zoo::transformer({.layers = 3, .width = 8, .heads = 2, .context = 4, .vocabulary = 10, .dropout = 0.5});
  EXPECT_EQ(seed_after(transformer, torch::zeros({2, 4}, torch::kInt64)), block_seed(kLane, 3));
  const auto wide = zoo::wide_resnet({.depth = 10, .factor = 1, .classes = 4});
  EXPECT_EQ(seed_after(wide, torch::zeros({2, 3, 8, 8})), block_seed(kLane, 3));
}

}  // namespace
}  // namespace muster::model
