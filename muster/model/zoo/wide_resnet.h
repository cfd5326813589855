// Wide residual networks for CIFAR-sized images (Zagoruyko and Komodakis, "Wide residual networks", BMVC 2016): WRN-d-k
// has d = 6n + 4 layers in three stages of n pre-activation blocks (norm, activation, convolution, twice), k times as
// wide as ResNet's, with dropout between the convolutions of a block.
//
// Parameters: conv1, layer1.0.bn1, layer1.0.conv1, layer1.0.bn2, layer1.0.conv2, layer1.0.shortcut (a 1x1 convolution
// where the shape changes), bn1 (the last norm), fc. First weights: He's normal by fan-out for convolutions, 1 and 0
// for norms, the bias of fc 0, as in the authors' code. torchvision's wide_resnet50_2 is another network: resnet.h.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/model/net.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

struct WideResNetOptions {
  std::int64_t depth = 28;  // 6n + 4
  std::int64_t factor = 10;
  std::int64_t classes = 10;
  std::int64_t channels = 3;
  double dropout = 0;  // the paper's 0.3 helps most where there is no other regularisation; in [0, 1)
  LayerOptions layers = {};
  bool recompute = false;  // blocks keep only their input for backward (recompute.h)
};

// Takes batches of images of any size. Throws kInvalidInput for options that make no network.
std::shared_ptr<model::Net> wide_resnet(const WideResNetOptions& options = {});

}  // namespace muster::zoo
