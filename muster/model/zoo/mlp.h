// A multi-layer perceptron: linear layers with ReLU between them. Parameters: fc1.weight, fc1.bias, fc2.weight, ...
// with the first weights that torch gives them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/model/net.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

struct MlpOptions {
  std::int64_t inputs = 784;
  std::vector<std::int64_t> hidden = {2048, 2048};  // may be empty: a linear classifier
  std::int64_t classes = 10;
  double dropout = 0;  // after each hidden layer, in [0, 1)
  Activation activation = Activation::kRelu;
};

// Takes batches of any shape with `inputs` values a sample. Throws kInvalidInput for options that make no network.
std::shared_ptr<model::Net> mlp(const MlpOptions& options = {});

}  // namespace muster::zoo
