// A small convolutional network in the manner of LeNet, for small images and one core: two rounds of convolution, batch
// norm, ReLU and halving, then two linear layers. The first round halves by the stride of its 5x5 convolution, the
// second by max pooling: whatever runs on the full image costs more than all the rest. Parameters: conv1, bn1, conv2,
// bn2, fc1, fc2, with the first weights that torch gives them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "muster/model/net.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

struct CnnOptions {
  std::int64_t channels = 1;
  std::int64_t height = 28;  // at least 8
  std::int64_t width = 28;   // at least 8
  std::int64_t classes = 10;
  std::array<std::int64_t, 2> filters = {16, 32};
  std::int64_t hidden = 128;
  double dropout = 0.25;  // before the linear layers, in [0, 1)
  LayerOptions layers = {};
};

// Takes batches of `channels` x `height` x `width`. Throws kInvalidInput for options that make no network.
std::shared_ptr<model::Net> cnn(const CnnOptions& options = {});

}  // namespace muster::zoo
