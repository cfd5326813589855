// The super-net of a differentiable search (FBNet, Wu et al., CVPR 2019): at each open place of a net of blocks all of
// its choices are computed, and added by shares; what is learned beside the weights is which share each should have.
//
// Two modules, since two optimizers train them: SuperNet has the weights, BlockShares a logit for each choice. The
// shares of a pass are a Gumbel-softmax of the logits: at a high temperature all choices get a part, at a low one
// nearly all goes to one that is drawn by the logits' probabilities. Thread safety: as torch modules.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "muster/model/zoo/fbnet_block.h"
#include "muster/model/zoo/latency_table.h"

namespace muster::zoo {

class BlockShares final : public torch::nn::Module {
 public:
  // All choices are equally likely. Parameters: place1, place2, ..., by the numbers of the open places.
  explicit BlockShares(const BlockNet& net);

  // Shares of each open place, summing to 1, drawn from torch's generator; gradients go to the logits.
  std::vector<torch::Tensor> draw(double temperature) const;
  // Softmax of the logits: the probability of each choice.
  std::vector<std::vector<double>> probabilities() const;
  // The most likely choice of each place, the first one of equals.
  std::vector<std::size_t> chosen() const;

 private:
  std::vector<torch::Tensor> logits_;
};

// The expected time, in milliseconds, of a net with these shares. REQUIRES: a table of the shares' net.
torch::Tensor expected_ms(const LatencyTable& table, const std::vector<torch::Tensor>& shares);

class SuperNet final : public torch::nn::Module {
 public:
  // Parameters: stem, block1.k3e6.expand.conv, ..., head, fc. Throws as fbnet().
  SuperNet(const BlockNet& net, std::int64_t channels, std::int64_t classes, const LayerOptions& layers = {});

  // Scores of the images. REQUIRES: shares for each open place (BlockShares::draw).
  torch::Tensor forward(const torch::Tensor& x, const std::vector<torch::Tensor>& shares);

 private:
  struct Place {
    std::vector<std::shared_ptr<FbNetBlock>> blocks;  // null: no block, what comes goes on
    bool open = false;
  };

  std::shared_ptr<ConvNorm> stem_;
  std::vector<Place> places_;
  std::shared_ptr<ConvNorm> head_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace muster::zoo
