// Nets of vertical training whose arithmetic can be followed by hand: sums, with weights that move by the gradient.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "muster/federated/vertical/checked_tensors.h"
#include "muster/federated/vertical/party_nets.h"

namespace muster::federated {

inline constexpr std::uint64_t kWidth = 2;

// Numbers of rows as the party's table has them.
using Values = std::vector<float>;

inline void write_numbers(const std::filesystem::path& path, const std::vector<double>& numbers) {
  const model::TensorView tensor{.name = "numbers",
                                 .dtype = model::Dtype::kF64,
                                 .shape = {static_cast<std::int64_t>(numbers.size())},
                                 .data = std::as_bytes(std::span(numbers))};
  write_checked(path, std::span(&tensor, 1));
}
inline std::vector<double> read_numbers(const std::filesystem::path& path) {
  const model::SafetensorsFile file = open_checked(path);
  std::vector<double> numbers(file.header().find("numbers")->bytes() / sizeof(double));
  file.read("numbers", std::as_writable_bytes(std::span(numbers)));
  return numbers;
}
// Gives weight times value; a step moves each weight by the gradient.
class SumBottom final : public BottomNet {
 public:
  explicit SumBottom(Values values) : values_(std::move(values)) { reset(); }
  std::uint64_t width() const override { return kWidth; }
  void reset() override { weights_ = {1, -1}; }
  void save(const std::filesystem::path& path) const override { write_numbers(path, {weights_[0], weights_[1]}); }
  void load(const std::filesystem::path& path) override {
    const std::vector<double> numbers = read_numbers(path);
    weights_ = {static_cast<float>(numbers.at(0)), static_cast<float>(numbers.at(1))};
  }
  void save_model(const std::filesystem::path& path) const override { save(path); }
  std::vector<float> forward(std::span<const std::uint64_t> rows, bool train) override {
    std::vector<float> given;
    for (const std::uint64_t row : rows) {
      for (const float weight : weights_)
        given.push_back(weight * values_.at(row));
    }
    if (train) rows_.assign(rows.begin(), rows.end());
    return given;
  }
  void backward(std::span<const float> gradient) override {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::size_t k = 0; k < kWidth; ++k)
        weights_[k] -= 0.01F * gradient[i * kWidth + k] * values_[rows_[i]];
    }
  }

 private:
  const Values values_;
  std::array<float, kWidth> weights_{};
  std::vector<std::uint64_t> rows_;
};

// Adds up all it is given, weighs each party, and wants the sum to be the row's value.
class SumTop final : public TopNet {
 public:
  SumTop(Values values, std::size_t parties) : values_(std::move(values)), scales_(parties) { reset(); }
  void reset() override {
    std::ranges::fill(scales_, 0.5F);
    loss_ = test_ = 0;
  }
  void save(const std::filesystem::path& path) const override {
    std::vector<double> numbers{loss_, test_};
    numbers.insert(numbers.end(), scales_.begin(), scales_.end());
    write_numbers(path, numbers);
  }
  void load(const std::filesystem::path& path) override {
    const std::vector<double> numbers = read_numbers(path);
    loss_ = numbers.at(0);
    test_ = numbers.at(1);
    for (std::size_t i = 0; i < scales_.size(); ++i)
      scales_[i] = static_cast<float>(numbers.at(i + 2));
  }
  void save_model(const std::filesystem::path& path) const override { save(path); }
  std::vector<std::vector<float>> step(std::span<const std::uint64_t> rows,
                                       std::span<const std::vector<float>> activations, bool train) override {
    std::vector<std::vector<float>> gradients(scales_.size(), std::vector<float>(rows.size() * kWidth));
    std::vector<float> moves(scales_.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      float sum = 0;
      for (std::size_t party = 0; party < scales_.size(); ++party)
        sum += scales_[party] * (activations[party].at(2 * i) + 2 * activations[party].at(2 * i + 1));
      const float error = sum - values_.at(rows[i]);
      (train ? loss_ : test_) += static_cast<double>(error) * error;
      for (std::size_t party = 0; party < scales_.size(); ++party) {
        gradients[party][2 * i] = error * scales_[party];
        gradients[party][2 * i + 1] = 2 * error * scales_[party];
        moves[party] += error * (activations[party][2 * i] + 2 * activations[party][2 * i + 1]);
      }
    }
    if (!train) return {};
    for (std::size_t party = 0; party < scales_.size(); ++party)
      scales_[party] -= 0.001F * moves[party];
    return gradients;
  }
  EpochFigures end_epoch() override {
    const EpochFigures figures{.train_loss = std::exchange(loss_, 0), .test_loss = std::exchange(test_, 0)};
    return figures;
  }

 private:
  const Values values_;
  std::vector<float> scales_;
  double loss_ = 0;
  double test_ = 0;
};

}  // namespace muster::federated
