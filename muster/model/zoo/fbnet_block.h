// The parts of FBNet's nets: convolution with norm and activation, and the block: an inverted residual, 1x1 convolution
// to more channels, depthwise one, 1x1 back; some with the 1x1 convolutions in groups and a channel shuffle between.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <torch/torch.h>

#include "muster/model/zoo/block_words.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

// Convolution and norm, and an activation unless it is the last of a block. Parameters: conv, bn.
class ConvNorm final : public torch::nn::Module {
 public:
  ConvNorm(const torch::nn::Conv2d& conv, const LayerOptions& layers, bool activated);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d conv_;
  Norm bn_;
  const std::optional<Activation> activation_;
};

// Parameters: expand, depthwise, project, each a ConvNorm. What it is given stays as it is.
class FbNetBlock final : public torch::nn::Module {
 public:
  FbNetBlock(const BlockChoice& choice, std::int64_t inputs, std::int64_t outputs, std::int64_t stride,
             const LayerOptions& layers);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::shared_ptr<ConvNorm> add(const std::string& name, const torch::nn::Conv2d& conv, const LayerOptions& layers,
                                bool activated);

  const std::int64_t groups_;
  const bool residual_;
  std::shared_ptr<ConvNorm> expand_, depthwise_, project_;
};

// First weights of a net of these blocks: convolutions as He, `fc` normal with deviation 0.01 and bias 0.
void start_block_net(torch::nn::Module& net, torch::nn::Linear& fc, const LayerOptions& layers);

}  // namespace muster::zoo
