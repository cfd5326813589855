#include "muster/model/zoo/cnn.h"

#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

constexpr std::int64_t kLeastSide = 8;

torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs) {
  // No bias: the batch norm behind it has one.
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(false));
}

class Cnn final : public model::Net {
 public:
  explicit Cnn(const CnnOptions& options)
      : conv1_(register_module("conv1", convolution(options.channels, options.filters[0]))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(options.filters[0]))),
        conv2_(register_module("conv2", convolution(options.filters[0], options.filters[1]))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(options.filters[1]))),
        fc1_(register_module(
            "fc1", torch::nn::Linear(options.filters[1] * (options.height / 4) * (options.width / 4), options.hidden))),
        fc2_(register_module("fc2", torch::nn::Linear(options.hidden, options.classes))),
        dropout_(options.dropout) {}

  torch::Tensor forward(torch::Tensor x) override {
    // Pooling before ReLU gives the same values as after it, with a quarter of the work.
    x = torch::max_pool2d(bn1_(conv1_(x)), 2).relu_();
    x = torch::max_pool2d(bn2_(conv2_(x)), 2).relu_();
    x = x.flatten(1);
    if (dropout_ > 0) x = torch::dropout(x, dropout_, is_training());
    return fc2_(fc1_(x).relu_());
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
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
