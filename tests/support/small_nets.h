// Small models and data for tests of training: fast, with everything that makes bits hard to keep (BatchNorm, dropout).
#pragma once

#include <memory>

#include <torch/torch.h>

#include "muster/data/dataset.h"
#include "muster/data/synthetic.h"

namespace muster::testing {

// Classifiers of samples of six numbers into three classes.
struct SmallNet : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
};

struct LinearNet final : SmallNet {
  LinearNet() {
    first = register_module("first", torch::nn::Linear(6, 5));
    second = register_module("second", torch::nn::Linear(5, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) override { return second->forward(torch::tanh(first->forward(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

struct BatchNormNet final : SmallNet {
  BatchNormNet() {
    first = register_module("first", torch::nn::Linear(6, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
    second = register_module("second", torch::nn::Linear(16, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) override {
    torch::Tensor hidden = torch::relu(norm->forward(first->forward(x)));
    if (drop > 0) hidden = torch::dropout(hidden, drop, is_training());
    return second->forward(hidden);
  }
  double drop = 0;
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

template <typename Net>
std::shared_ptr<Net> make_net(std::uint64_t seed) {
  torch::manual_seed(seed);
  return std::make_shared<Net>();
}

inline std::shared_ptr<const data::Dataset> line_data(std::uint64_t samples) {
  data::SyntheticOptions options;
  options.shape = {6};
  options.classes = 3;
  options.samples = samples;
  options.seed = 5;
  return std::make_shared<data::Synthetic>(options);
}

}  // namespace muster::testing
