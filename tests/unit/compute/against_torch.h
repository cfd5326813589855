// Drives one of our optimizers and one of torch's with the same gradients and compares what they leave behind.
//
// They agree closely and not to the bit: ATen fuses multiply and add where the processor can and divides where we
// multiply by a reciprocal, while ours must give the same bits on every processor. Each step rounds differently by
// about 6e-8.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <type_traits>

#include "muster/compute/optimizer.h"
#include "unit/compute/samples.h"

namespace muster::compute {

// One tensor trained by Muster.
class Trained {
 public:
  Trained(const Optimizer& optimizer, std::vector<float> initial)
      : optimizer_(optimizer), parameters_(std::move(initial)), next_parameters_(parameters_.size()) {
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(optimizer.slots()); ++slot) {
      state_[slot].resize(parameters_.size());
      next_state_[slot].resize(parameters_.size());
    }
  }

  void step(const std::vector<float>& gradient, double lr, double weight_decay) {
    optimizer_.update({parameters_, gradient, {state_[0], state_[1]}}, {lr, weight_decay, true, ++steps_}, 1,
                      {next_parameters_, {next_state_[0], next_state_[1]}});
    parameters_.swap(next_parameters_);
    state_.swap(next_state_);
  }

  const std::vector<float>& parameters() const { return parameters_; }
  const std::vector<float>& state(std::size_t slot) const { return state_[slot]; }

 private:
  const Optimizer& optimizer_;
  std::uint64_t steps_ = 0;
  std::vector<float> parameters_, next_parameters_;
  std::array<std::vector<float>, kMaxSlots> state_, next_state_;
};

inline torch::Tensor tensor_of(const std::vector<float>& values) {
  return torch::tensor(values, torch::kFloat32);
}

// Every element within `tolerance` of the largest magnitude in the tensor, or of 1: values start at that scale, and the
// rounding of those steps stays when a value comes close to 0.
inline void expect_near(const std::vector<float>& ours, const torch::Tensor& theirs, double tolerance) {
  const torch::Tensor difference = (tensor_of(ours).to(torch::kFloat64) - theirs.to(torch::kFloat64)).abs();
  const double scale = std::max(1.0, theirs.abs().max().item<double>());
  EXPECT_LE(difference.max().item<double>(), tolerance * scale);
}

// Trains tensors of sizes 1, odd and more than a tile for 100 steps, with a rate that changes on the way.
// compare_state(trained, torch parameter, torch optimizer) is called for each tensor at the end.
template <class TorchOptimizer, class TorchOptions, class CompareState>
void expect_torch(const OptimizerOptions& options, const TorchOptions& torch_options, CompareState compare_state) {
  const auto optimizer = make_optimizer(options);
  std::vector<Trained> trained;
  std::vector<torch::Tensor> parameters;
  for (const std::size_t size : {1U, 77U, 2051U}) {
    trained.emplace_back(*optimizer, samples(size, size));
    parameters.push_back(tensor_of(trained.back().parameters()).set_requires_grad(true));
  }
  TorchOptimizer theirs(parameters, torch_options);
  for (std::uint64_t step = 0; step < 100; ++step) {
    const double lr = base_lr(options) * (step < 50 ? 1 : 0.1);
    static_cast<TorchOptions&>(theirs.param_groups()[0].options()).lr(lr);
    for (std::size_t i = 0; i < trained.size(); ++i) {
      const std::vector<float> gradient = samples(trained[i].parameters().size(), 10000 * (i + 1) + step);
      parameters[i].mutable_grad() = tensor_of(gradient);
      trained[i].step(gradient, lr, weight_decay(options));
    }
    theirs.step();
  }
  for (std::size_t i = 0; i < trained.size(); ++i) {
    expect_near(trained[i].parameters(), parameters[i].detach(), 2e-6);
    compare_state(trained[i], parameters[i], theirs);
  }
}

// What torch finds the state of a parameter by: its address, which was written as text before LibTorch 2.
template <class Key>
Key state_key(const torch::Tensor& parameter) {
  if constexpr (std::is_pointer_v<Key>) {
    return parameter.unsafeGetTensorImpl();
  } else {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  }
}

// The state that torch keeps for `parameter`.
template <class State>
const State& state_of(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
  using Key = typename std::decay_t<decltype(optimizer.state())>::key_type;
  return static_cast<const State&>(*optimizer.state().at(state_key<Key>(parameter)));
}

}  // namespace muster::compute
