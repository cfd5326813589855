// Residual networks (He et al., "Deep residual learning for image recognition", CVPR 2016).
//
// Depths 18, 34, 50, 101 and 152 are the ImageNet networks: 7x7 stem, max pooling, four stages of 64 to 512 channels,
// projection shortcuts; from 50 on blocks are bottlenecks, with four times the channels and the stride in their 3x3
// convolution, as torchvision has it (the paper: in the first 1x1). Depths 20, 32, 44, 56 and 110 are the paper's CIFAR
// networks: 3x3 stem, three stages of 16 to 64 channels, shortcuts without parameters.
// Parameters and buffers have torchvision's names and shapes: conv1.weight, bn1.running_mean,
// layer2.0.downsample.0.weight, fc.bias; its published weights fit. width_factor 2 gives torchvision's wide_resnet50_2
// and wide_resnet101_2; the Wide ResNets of the paper are in wide_resnet.h.
// First weights: He's normal by fan-out for convolutions, 1 and 0 for norms, torch's own for the linear layer.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/model/net.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

struct ResNetOptions {
  int depth = 18;  // one of the above
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t width_factor = 1;  // of the 3x3 convolutions inside bottleneck blocks
  LayerOptions layers = {};
  bool recompute = false;  // blocks keep only their input for backward (recompute.h)
};

// Takes batches of images of any size. Throws kInvalidInput for an impossible option, naming the depths there are.
std::shared_ptr<model::Net> resnet(const ResNetOptions& options = {});

}  // namespace muster::zoo
