// Poles on carts, to be balanced by pushes to the left (0) and right (1): the usual control problem (Barto, Sutton and
// Anderson 1983), for many carts at once. Used by reinforce.cpp and dqn.cpp.
#pragma once

#include <torch/torch.h>

// `state` is carts x (place, speed, angle, turning).
inline torch::Tensor new_carts(std::int64_t carts) {
  return torch::rand({carts, 4}) * 0.1 - 0.05;
}

inline torch::Tensor push(const torch::Tensor& state, const torch::Tensor& action) {
  const auto part = state.unbind(1);
  const torch::Tensor force = action.to(torch::kFloat32) * 20 - 10;
  const torch::Tensor sine = part[2].sin();
  const torch::Tensor cosine = part[2].cos();
  const torch::Tensor pull = (force + 0.05 * part[3].pow(2) * sine) / 1.1;
  const torch::Tensor turn = (9.8 * sine - cosine * pull) / (0.5 * (4.0 / 3 - 0.1 * cosine.pow(2) / 1.1));
  const torch::Tensor rush = pull - 0.05 * turn * cosine / 1.1;
  return torch::stack(
      {part[0] + 0.02 * part[1], part[1] + 0.02 * rush, part[2] + 0.02 * part[3], part[3] + 0.02 * turn}, 1);
}

// Which poles have fallen, or carts have left the track.
inline torch::Tensor fallen(const torch::Tensor& state) {
  return state.select(1, 0).abs().gt(2.4).logical_or(state.select(1, 2).abs().gt(0.21));
}
