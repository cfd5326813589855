// Activations work in place, since a linear layer's backward does not look at its output. Samples of any shape are
// taken as one row. A team divides each pair of layers: the first by its outputs, the second by its inputs. A last
// layer without a partner is whole.
#include "muster/model/zoo/mlp.h"

#include <fmt/format.h>

#include "muster/model/block.h"
#include "muster/model/divisible.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

class Mlp final : public model::Net, public model::Divisible {
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
    for (std::size_t i = 0; i < layers_.size(); i += 2)
      x = pair(i, x);
    return x;
  }

  // Pairs of layers, so that a team divides each of them within a stage.
  std::vector<model::Piece> pieces() override {
    std::vector<model::Piece> all;
    for (std::size_t i = 0; i < layers_.size(); i += 2) {
      std::vector<std::string> holds{fmt::format("fc{}", i + 1)};
      if (i + 1 < layers_.size()) holds.push_back(fmt::format("fc{}", i + 2));
      all.push_back({holds.front(), holds, [this, i](const torch::Tensor& x) { return pair(i, x); },
                     draws(i) ? layers_[i].ptr() : nullptr});
    }
    return all;
  }

  std::vector<model::Split> splits() const override {
    std::vector<model::Split> all;
    for (std::size_t i = 0; i + 1 < layers_.size(); i += 2) {
      all.push_back({fmt::format("fc{}.weight", i + 1), 0});
      all.push_back({fmt::format("fc{}.bias", i + 1), 0});
      all.push_back({fmt::format("fc{}.weight", i + 2), 1});
    }
    return all;
  }
  void join(const model::TensorTeam& team) override { team_ = team; }

 private:
  // Whether layer `i` or its partner is followed by dropout.
  bool draws(std::size_t i) const { return dropout_ > 0 && i + 1 < layers_.size(); }

  torch::Tensor pair(std::size_t i, const torch::Tensor& x) {
    const auto compute = [this, i](const torch::Tensor& input) {
      torch::Tensor out = activated(i, input.flatten(1));
      return i + 1 < layers_.size() ? activated(i + 1, out) : out;
    };
    return draws(i) ? model::run_block(layers_[i].ptr(), compute, x, false) : compute(x);
  }

  // Layer `i` and what comes behind it, which is nothing for the last one.
  torch::Tensor activated(std::size_t i, const torch::Tensor& input) {
    torch::Tensor x = layer(i, input);
    if (i + 1 == layers_.size()) return x;
    // In place: a linear layer's backward does not look at its output.
    x = activate(x, activation_);
    if (dropout_ == 0) return x;
    return is_first_of_pair(i) ? team_.dropout(x, dropout_, is_training(), 1, layers_[i]->options.out_features())
                               : torch::dropout(x, dropout_, is_training());
  }

  bool is_first_of_pair(std::size_t i) const { return i % 2 == 0 && i + 1 < layers_.size(); }

  torch::Tensor layer(std::size_t i, const torch::Tensor& x) {
    if (i % 2 == 1) return team_.sum_linear(x, layers_[i]->weight, layers_[i]->bias);
    return layers_[i](is_first_of_pair(i) ? team_.enter(x) : x);
  }

  void add_layer(std::int64_t inputs, std::int64_t outputs) {
    layers_.push_back(register_module(fmt::format("fc{}", layers_.size() + 1), torch::nn::Linear(inputs, outputs)));
  }

  const double dropout_;
  const Activation activation_;
  std::vector<torch::nn::Linear> layers_;
  model::TensorTeam team_;
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
