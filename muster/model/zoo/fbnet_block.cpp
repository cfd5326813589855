// Convolution, norm and activation; and three of them as a block.
// A block whose shapes agree adds what it was given.
#include "muster/model/zoo/fbnet_block.h"

namespace muster::zoo {
namespace {

constexpr double kLinearDeviation = 0.01;

// Deals the channels of each group out to all groups, so that the next grouped convolution sees all of them.
torch::Tensor shuffled(const torch::Tensor& x, std::int64_t groups) {
  if (groups == 1) return x;
  return x.reshape({x.size(0), groups, x.size(1) / groups, x.size(2), x.size(3)}).transpose(1, 2).reshape(x.sizes());
}

}  // namespace

ConvNorm::ConvNorm(const torch::nn::Conv2d& conv, const LayerOptions& layers, bool activated)
    : conv_(register_module("conv", conv)),
      bn_(register_norm(*this, "bn", layers, conv->options.out_channels())),
      activation_(activated ? std::optional(layers.activation) : std::nullopt) {
}

torch::Tensor ConvNorm::forward(const torch::Tensor& x) {
  const torch::Tensor out = bn_(conv_(x));
  return activation_ ? activate(out, *activation_) : out;
}

FbNetBlock::FbNetBlock(const BlockChoice& choice, std::int64_t inputs, std::int64_t outputs, std::int64_t stride,
                       const LayerOptions& layers)
    : groups_(choice.groups), residual_(stride == 1 && inputs == outputs) {
  const std::int64_t inside = inputs * choice.expansion;
  expand_ = add("expand", convolution(inputs, inside, 1, 1, choice.groups), layers, true);
  depthwise_ = add("depthwise", convolution(inside, inside, choice.kernel, stride, inside), layers, true);
  project_ = add("project", convolution(inside, outputs, 1, 1, choice.groups), layers, false);
}

torch::Tensor FbNetBlock::forward(const torch::Tensor& x) {
  const torch::Tensor out = project_->forward(depthwise_->forward(shuffled(expand_->forward(x), groups_)));
  return residual_ ? out + x : out;
}

std::shared_ptr<ConvNorm> FbNetBlock::add(const std::string& name, const torch::nn::Conv2d& conv,
                                          const LayerOptions& layers, bool activated) {
  return register_module(name, std::make_shared<ConvNorm>(conv, layers, activated));
}

void start_block_net(torch::nn::Module& net, torch::nn::Linear& fc, const LayerOptions& layers) {
  start_convolutions_as_he(net, layers.activation);
  torch::nn::init::normal_(fc->weight, 0, kLinearDeviation);
  torch::nn::init::zeros_(fc->bias);
}

}  // namespace muster::zoo
