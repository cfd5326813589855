// Channels are innermost in memory, and pooling comes before the activation: the same values for a quarter of the work.
// The sizes are chosen for one core and small images.
#include "muster/model/zoo/cnn.h"

#include "muster/model/block.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

constexpr std::int64_t kLeastSide = 8;

// A side after both rounds: the stride rounds up, the pooling down.
std::int64_t quartered(std::int64_t side) {
  return (side + 1) / 2 / 2;
}

class Cnn final : public model::Net {
 public:
  explicit Cnn(const CnnOptions& options)
      : conv1_(register_module("conv1", convolution(options.channels, options.filters[0], 5, 2))),
        bn1_(register_norm(*this, "bn1", options.layers, options.filters[0])),
        conv2_(register_module("conv2", convolution(options.filters[0], options.filters[1], 3, 1))),
        bn2_(register_norm(*this, "bn2", options.layers, options.filters[1])),
        fc1_(register_module(
            "fc1", torch::nn::Linear(options.filters[1] * quartered(options.height) * quartered(options.width),
                                     options.hidden))),
        fc2_(register_module("fc2", torch::nn::Linear(options.hidden, options.classes))),
        dropout_(options.dropout),
        activation_(options.layers.activation) {}

  torch::Tensor forward(torch::Tensor x) override { return score(deepen(begin(x))); }

  std::vector<model::Piece> pieces() override {
    return {{"conv1", {"conv1", "bn1"}, [this](const torch::Tensor& x) { return begin(x); }, {}},
            {"conv2", {"conv2", "bn2"}, [this](const torch::Tensor& x) { return deepen(x); }, {}},
            {"head",
             {"fc1", "fc2"},
             [this](const torch::Tensor& x) { return score(x); },
             dropout_ > 0 ? fc1_.ptr() : nullptr}};
  }

 private:
  // Channels innermost: batch norm, the second convolution and above all pooling are much faster in that order.
  torch::Tensor begin(const torch::Tensor& x) {
    return activate(bn1_(conv1_(x).contiguous(torch::MemoryFormat::ChannelsLast)), activation_);
  }
  // Pooling before the activation, which rises, gives the same values as after it, with a quarter of the work.
  torch::Tensor deepen(const torch::Tensor& x) {
    // Where it comes from another stage its channels are outermost.
    const torch::Tensor in_order = x.contiguous(torch::MemoryFormat::ChannelsLast);
    return activate(torch::max_pool2d(bn2_(conv2_(in_order)), 2), activation_);
  }
  torch::Tensor score(const torch::Tensor& x) {
    const auto compute = [this](const torch::Tensor& input) {
      torch::Tensor flat = input.flatten(1);
      if (dropout_ > 0) flat = torch::dropout(flat, dropout_, is_training());
      return fc2_(activate(fc1_(flat), activation_));
    };
    return dropout_ > 0 ? model::run_block(fc1_.ptr(), compute, x, false) : compute(x);
  }

  torch::nn::Conv2d conv1_;
  Norm bn1_;
  torch::nn::Conv2d conv2_;
  Norm bn2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  const double dropout_;
  const Activation activation_;
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
