// Features come one-hot from the table, so an embedding is a product with its columns: a category that training has not
// seen is all zeros and gives zeros.
#include "muster/model/zoo/wide_deep.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

std::int64_t usual_width(std::int64_t categories) {
  return static_cast<std::int64_t>(std::ceil(6 * std::pow(static_cast<double>(categories), 0.25)));
}

class WideDeep final : public model::Net {
 public:
  explicit WideDeep(const WideDeepOptions& options)
      : columns_(options.columns), dropout_(options.dropout), activation_(options.activation) {
    const std::int64_t features = std::accumulate(columns_.begin(), columns_.end(), std::int64_t{0});
    wide_ = register_module("wide", torch::nn::Linear(features, options.classes));
    torch::nn::init::zeros_(wide_->weight);
    torch::nn::init::zeros_(wide_->bias);
    std::int64_t inputs = 0;
    for (const std::int64_t categories : columns_) {
      if (categories == 1) {
        ++inputs;
        continue;
      }
      const std::int64_t width = options.embedding.value_or(usual_width(categories));
      const auto embedding =
          register_module(fmt::format("embedding{}", embeddings_.size()), torch::nn::Embedding(categories, width));
      torch::nn::init::normal_(embedding->weight, 0, 1 / std::sqrt(static_cast<double>(width)));
      embeddings_.push_back(embedding);
      inputs += width;
    }
    for (const std::int64_t width : options.hidden) {
      add_layer(inputs, width);
      inputs = width;
    }
    add_layer(inputs, options.classes);
  }

  torch::Tensor forward(torch::Tensor x) override {
    torch::Tensor deep = torch::cat(deep_inputs(x), 1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      deep = activate(layers_[i](deep), activation_);
      if (dropout_ > 0) deep = torch::dropout(deep, dropout_, is_training());
    }
    return wide_(x) + layers_.back()(deep);
  }

 private:
  void add_layer(std::int64_t inputs, std::int64_t outputs) {
    layers_.push_back(register_module(fmt::format("fc{}", layers_.size() + 1), torch::nn::Linear(inputs, outputs)));
  }

  // Runs of number columns as they are, and each one-hot column by its embeddings.
  std::vector<torch::Tensor> deep_inputs(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts;
    std::int64_t first = 0;
    std::size_t embedding = 0;
    for (std::size_t c = 0; c < columns_.size();) {
      std::int64_t run = 0;
      for (; c < columns_.size() && columns_[c] == 1; ++c)
        ++run;
      if (run > 0) parts.push_back(x.narrow(1, first, run));
      first += run;
      if (c == columns_.size()) break;
      // A product and not a lookup: the features are one-hot already, and all zeros give zeros.
      parts.push_back(x.narrow(1, first, columns_[c]).matmul(embeddings_[embedding++]->weight));
      first += columns_[c++];
    }
    return parts;
  }

  const std::vector<std::int64_t> columns_;
  const double dropout_;
  const Activation activation_;
  torch::nn::Linear wide_{nullptr};
  std::vector<torch::nn::Embedding> embeddings_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace

std::shared_ptr<model::Net> wide_deep(const WideDeepOptions& options) {
  require_at_least("wide_deep", "columns", static_cast<std::int64_t>(options.columns.size()), 1);
  for (const std::int64_t width : options.columns)
    require_at_least("wide_deep", "features of a column", width, 1);
  for (const std::int64_t width : options.hidden)
    require_at_least("wide_deep", "hidden", width, 1);
  require_at_least("wide_deep", "embedding", options.embedding.value_or(1), 1);
  require_at_least("wide_deep", "classes", options.classes, 1);
  require_dropout("wide_deep", options.dropout);
  return std::make_shared<WideDeep>(options);
}

}  // namespace muster::zoo
