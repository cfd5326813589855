#include "muster/model/zoo/cnn.h"

#include "muster/model/sync_batch_norm.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

constexpr std::int64_t kLeastSide = 8;

torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride) {
  // No bias: the batch norm behind it has one.
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// A side after both rounds: the stride rounds up, the pooling down.
std::int64_t quartered(std::int64_t side) {
  return (side + 1) / 2 / 2;
}

class Cnn final : public model::Net {
 public:
  explicit Cnn(const CnnOptions& options)
      : conv1_(register_module("conv1", convolution(options.channels, options.filters[0], 5, 2))),
        bn1_(register_module("bn1", model::SyncBatchNorm2d(options.filters[0]))),
        conv2_(register_module("conv2", convolution(options.filters[0], options.filters[1], 3, 1))),
        bn2_(register_module("bn2", model::SyncBatchNorm2d(options.filters[1]))),
        fc1_(register_module(
            "fc1", torch::nn::Linear(options.filters[1] * quartered(options.height) * quartered(options.width),
                                     options.hidden))),
        fc2_(register_module("fc2", torch::nn::Linear(options.hidden, options.classes))),
        dropout_(options.dropout) {}

  torch::Tensor forward(torch::Tensor x) override {
    // Channels innermost: batch norm, the second convolution and above all pooling are much faster in that order.
    x = bn1_(conv1_(x).contiguous(torch::MemoryFormat::ChannelsLast)).relu_();
    // Pooling before ReLU gives the same values as after it, with a quarter of the work.
    x = torch::max_pool2d(bn2_(conv2_(x)), 2).relu_();
    x = x.flatten(1);
    if (dropout_ > 0) x = torch::dropout(x, dropout_, is_training());
    return fc2_(fc1_(x).relu_());
  }

 private:
  torch::nn::Conv2d conv1_;
  model::SyncBatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  model::SyncBatchNorm2d bn2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  const double dropout_;
};

}  // namespace

std::shared_ptr<model::Net> cnn(const CnnOptions& options) {
  require_at_least("cnn", "channels", options.channels, 1);
  require_at_least("cnn", "height", options.height, kLeastSide);
  require_at_least("cnn", "width", options.width, kLeastSide);
  require_at_least("cnn", "classes", options.classes, 1);
  require_at_least("cnn", "filters", std::min(options.filters[0], options.filters[1]), 1);
  require_at_least("cnn", "hidden", options.hidden, 1);
  require_dropout("cnn", options.dropout);
  return std::make_shared<Cnn>(options);
}

}  // namespace muster::zoo
