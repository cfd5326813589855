// What the server does with the mean change of a round's clients: adds it (FedAvg), or takes it as a gradient (FedAvgM:
// Hsu et al. 2019; FedAdagrad, FedAdam, FedYogi: Reddi et al. 2021, algorithm 2).
//
//   average   x += lr d
//   momentum  m = b m + d;              x += lr m
//   adagrad   v += d^2                                   with m = b m + (1 - b) d and x += lr m / (sqrt(v) + tau)
//   adam      v = b2 v + (1 - b2) d^2                    for all three, and v = tau^2 before the first round
//   yogi      v -= (1 - b2) d^2 sign(v - d^2)
// Elementwise and in single precision. No torch here.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/options.h"

namespace muster::federated {

class ServerOptimizer {
 public:
  // Of a model of `size` numbers. REQUIRES: options that passed Options::check().
  ServerOptimizer(const Options& options, std::size_t size);

  // Applies the mean change. REQUIRES: both as long as the model.
  void apply(std::span<const float> change, std::span<float> model);

  // m and v, where the kind has them; else empty. Part of the state of a run.
  std::vector<float>& momentum() { return momentum_; }
  std::vector<float>& squares() { return squares_; }

 private:
  enum class Kind { kAverage, kMomentum, kAdagrad, kAdam, kYogi };
  static Kind kind_of(const std::string& name);

  Kind kind_;
  float lr_;
  float beta_;
  float beta2_;
  float tau_;
  std::vector<float> momentum_;
  std::vector<float> squares_;
};

}  // namespace muster::federated
