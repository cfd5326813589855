// FBNet A, B and C (Wu et al., "FBNet: hardware-aware efficient ConvNet design via differentiable neural architecture
// search", CVPR 2019): inverted residuals (1x1 convolution to more channels, depthwise 3x3 or 5x5, 1x1 back), in A some
// with the 1x1 convolutions in two groups and a channel shuffle between them.
//
// Blocks and widths are those of the networks that the authors published, since the paper only draws B and C
// (docs/models.md). Parameters: stem.conv, stem.bn, block1.expand.conv, block1.depthwise.bn, block1.project.conv, ...,
// head.conv, fc; a block's number is its place among the search's 22, those that the search left out are missing.
// First weights, of which the paper says nothing: He's normal by fan-out for convolutions, normal with deviation 0.01
// and bias 0 for fc, as torchvision's MobileNetV2.
//
// Nets of the same blocks with other choices are named by their blocks (block_words.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/model/net.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

struct FbNetOptions {
  char variant = 'c';       // a, b or c
  std::string blocks = {};  // instead: a net of one's own, in the words of block_words.h
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  LayerOptions layers = {};
};

// Takes batches of images of any size. Throws kInvalidInput for options that make no network.
std::shared_ptr<model::Net> fbnet(const FbNetOptions& options = {});

}  // namespace muster::zoo
