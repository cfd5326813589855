// Activations work in place, since a linear layer's backward does not look at its output. Samples of any shape are
// taken as one row.
#include "muster/model/zoo/mlp.h"

#include <fmt/format.h>

#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

class Mlp final : public model::Net {
 public:
  explicit Mlp(const MlpOptions& options) : dropout_(options.dropout), activation_(options.activation) {
    std::int64_t inputs = options.inputs;
    for (const std::int64_t width : options.hidden) {
      add_layer(inputs, width);
      inputs = width;
    }
    add_layer(inputs, options.classes);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = x.flatten(1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      // In place: a linear layer's backward does not look at its output.
      x = activate(layers_[i](x), activation_);
      if (dropout_ > 0) x = torch::dropout(x, dropout_, is_training());
    }
    return layers_.back()(x);
  }

 private:
  void add_layer(std::int64_t inputs, std::int64_t outputs) {
    layers_.push_back(register_module(fmt::format("fc{}", layers_.size() + 1), torch::nn::Linear(inputs, outputs)));
  }

  const double dropout_;
  const Activation activation_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace

std::shared_ptr<model::Net> mlp(const MlpOptions& options) {
  require_at_least("mlp", "inputs", options.inputs, 1);
  for (const std::int64_t width : options.hidden)
    require_at_least("mlp", "hidden", width, 1);
  require_at_least("mlp", "classes", options.classes, 1);
  require_dropout("mlp", options.dropout);
  return std::make_shared<Mlp>(options);
}

}  // namespace muster::zoo
