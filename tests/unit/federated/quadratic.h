// A training that can be followed by hand: a client's model moves by a fixed part towards its own target, which is the
// mean of its samples' numbers.
#pragma once

#include <signal.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "muster/federated/client_split.h"
#include "muster/federated/local_training.h"
#include "muster/federated/options.h"

namespace muster::federated {

constexpr std::size_t kSize = 37;  // 32 parameters and 5 buffers
constexpr std::size_t kParameters = 32;
constexpr double kLr = 0.1;
constexpr int kSteps = 4;
constexpr auto kOn = [] { return true; };

inline double target_of(const std::vector<std::uint64_t>& samples, std::size_t place) {
  double sum = 0;
  for (const std::uint64_t sample : samples)
    sum += std::sin(static_cast<double>(sample * 31 + place));
  return sum / static_cast<double>(samples.size());
}

// kSteps steps of gradient descent on (x - target)^2 / 2, with what the task adds to the gradient.
class Quadratic : public LocalTraining {
 public:
  explicit Quadratic(std::filesystem::path die_once = {}) : die_once_(std::move(die_once)) {}

  std::size_t size() const override { return kSize; }
  std::size_t parameters() const override { return kParameters; }
  std::uint64_t batch() const override { return 2; }
  void first_values(std::span<float> model) override { std::ranges::fill(model, 0.5F); }
  LocalResult train(const LocalTask& task, std::span<const float> model, std::span<float> update) override {
    // The first worker that comes here in round 1 is killed.
    if (task.round == 1 && !die_once_.empty() && std::filesystem::remove(die_once_)) ::raise(SIGKILL);
    for (std::size_t i = 0; i < model.size(); ++i) {
      float x = model[i];
      for (int step = 0; step < kSteps; ++step) {
        float gradient = x - static_cast<float>(target_of(task.samples, i));
        gradient += static_cast<float>(task.prox) * (x - model[i]);
        if (i < task.correction.size()) gradient += task.correction[i];
        x -= static_cast<float>(kLr * task.rate) * gradient;
      }
      update[i] = x - model[i];
    }
    return {.steps = kSteps, .lr = kLr * task.rate, .loss = 1.5};
  }
  // The loss is the mean distance to the samples' target, of the parameters.
  Figures evaluate(std::span<const std::uint64_t> samples, std::span<const float> model) override {
    const std::vector<std::uint64_t> ids(samples.begin(), samples.end());
    double distance = 0;
    for (std::size_t i = 0; i < kParameters; ++i)
      distance += std::abs(static_cast<double>(model[i]) - target_of(ids, i)) / kParameters;
    return {.loss = distance, .metrics = {{"closeness", 1 / (1 + distance)}}, .samples = samples.size()};
  }
  std::vector<TensorPlace> tensors() const override {
    return {{"first.weight", {4, 5}, 0}, {"head.weight", {12}, 20}, {"norm.running_mean", {5}, 32}};
  }
  std::size_t evaluation_pieces() const override { return 3; }
  std::size_t figures_of_piece() const override { return 1; }
  void measure(std::span<const float> model, std::size_t piece, std::span<double> figures) override {
    figures[0] = model[piece];
  }
  Figures judge(std::span<const double> figures) override {
    return {.loss = figures[0] + figures[1] + figures[2], .metrics = {{"nothing", std::nan("")}}, .samples = 3};
  }
  void save(std::span<const float> model, const std::filesystem::path& path) override {
    std::ofstream(path) << model.size();
  }

 private:
  std::filesystem::path die_once_;
};

// The corner of it: 2 x 5 of the first tensor, 7 of the second, 5 buffers. Its own number i has the target of number i.
class NarrowQuadratic final : public Quadratic {
 public:
  static constexpr std::size_t kFloats = 25;  // three of them between tensors, which are nobody's
  std::size_t size() const override { return kFloats; }
  std::size_t parameters() const override { return 20; }
  std::vector<TensorPlace> tensors() const override {
    return {{"first.weight", {2, 5}, 0}, {"head.weight", {7}, 12}, {"norm.running_mean", {5}, 20}};
  }
};

inline Options options_of(std::int64_t clients, std::int64_t per_round) {
  Options options;
  options.clients = clients;
  options.per_round = per_round;
  options.rounds = 4;
  return options;
}

inline ClientSplit split_of(const Options& options) {
  return ClientSplit(
      {.split = parse_split(options.split), .clients = static_cast<std::uint64_t>(options.clients), .seed = 3},
      static_cast<std::uint64_t>(options.clients) * 5, [&] {
        std::vector<std::int64_t> labels(static_cast<std::size_t>(options.clients) * 5);
        for (std::size_t i = 0; i < labels.size(); ++i)
          labels[i] = static_cast<std::int64_t>(i % 7);
        return labels;
      });
}

}  // namespace muster::federated
