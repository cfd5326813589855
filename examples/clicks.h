// The table and the net of wide_deep_servers.cpp: clicks by user, product and shop, made up, and a wide and deep net.
#pragma once

#include <muster/muster.h>

using torch::indexing::Slice;

constexpr std::int64_t kUsers = 2000, kProducts = 300, kShops = 40, kKeys = kUsers + kProducts + kShops;
constexpr std::int64_t kWidth = 9;  // of a row: 8 floats for the deep part, 1 for the wide one
constexpr std::int64_t kTrain = 24000, kTest = 4000, kBatch = 100, kBatches = 4 * kTrain / kBatch;

struct Table {
  torch::Tensor keys;   // samples x 3 columns; a key belongs to one column
  torch::Tensor label;  // samples
};

// Every category has a taste of its own; few categories are common and many are rare, as in real tables.
inline Table make_table(std::int64_t samples) {
  const auto column = [&](std::int64_t categories, std::int64_t first) {
    return (torch::rand({samples}).pow(2) * static_cast<double>(categories)).to(torch::kInt64) + first;
  };
  const torch::Tensor keys =
      torch::stack({column(kUsers, 0), column(kProducts, kUsers), column(kShops, kUsers + kProducts)}, 1);
  const torch::Tensor taste = torch::sin(torch::arange(kKeys).pow(2).to(torch::kFloat32)) * 2;
  return {keys, torch::bernoulli(torch::sigmoid(2 * taste.index({keys}).sum(1)))};
}

inline torch::nn::Sequential make_deep() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(3 * (kWidth - 1), 32), torch::nn::ReLU(), torch::nn::Linear(32, 1));
}

// `rows`: samples x columns x kWidth.
inline torch::Tensor forward(torch::nn::Sequential& deep, const torch::Tensor& rows) {
  return deep->forward(rows.index({Slice(), Slice(), Slice(0, kWidth - 1)}).flatten(1)).squeeze(1) +
         rows.index({Slice(), Slice(), kWidth - 1}).sum(1);
}

inline double accuracy(torch::nn::Sequential& deep, const torch::Tensor& rows, const torch::Tensor& label) {
  return (forward(deep, rows) > 0).eq(label > 0.5).to(torch::kFloat32).mean().item<double>();
}

inline torch::Tensor batch(const torch::Tensor& all, std::int64_t number) {
  return all.narrow(0, number * kBatch % kTrain, kBatch);
}
