// Wide and deep learning for tables (Cheng et al., "Wide & deep learning for recommender systems", 2016): the sum of a
// linear model of all features, which memorises, and a perceptron over the numbers and an embedding of each column of
// categories, which generalises.
//
// Unlike the paper there are no cross products in the wide part (add them as columns), hidden layers are narrower, and
// both parts have the job's one optimizer. Parameters: wide, embedding0.weight, embedding1.weight, ... (one for each
// column of categories: categories x width, as torch's Embedding), fc1, fc2, ... First weights: wide 0, embeddings
// normal with deviation 1/sqrt(width), the others as torch makes them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "muster/model/net.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

struct WideDeepOptions {
  std::vector<std::int64_t> columns = {};  // features of each column: 1 a number, more one-hot categories
  std::vector<std::int64_t> hidden = {256, 128, 64};
  std::optional<std::int64_t> embedding = {};  // width of each; empty: 6 x the fourth root of the categories
  std::int64_t classes = 2;
  double dropout = 0;  // after each hidden layer, in [0, 1)
  Activation activation = Activation::kRelu;
};

// Takes batches of samples x features, columns one behind the other, as table sources give them. A category that
// training never saw, all zeros, has an embedding of zeros. Throws kInvalidInput for options that make no network.
std::shared_ptr<model::Net> wide_deep(const WideDeepOptions& options);

}  // namespace muster::zoo
