// Residual networks (He et al., "Deep residual learning for image recognition", CVPR 2016).
//
// Depth 18 is the ImageNet network: 7x7 stem, max pooling, four stages of 64 to 512 channels, projection shortcuts.
// Depth 20 is the paper's CIFAR network: 3x3 stem, three stages of 16 to 64 channels, shortcuts without parameters.
// Parameters and buffers have torchvision's names and shapes: conv1.weight, bn1.running_mean,
// layer2.0.downsample.0.weight, fc.bias; its published weights fit.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/model/net.h"

namespace muster::zoo {

struct ResNetOptions {
  int depth = 18;  // 18 or 20
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
};

// Takes batches of images of any size. Throws kInvalidInput for an impossible option, naming the depths there are.
std::shared_ptr<model::Net> resnet(const ResNetOptions& options = {});

}  // namespace muster::zoo
