// Mixed precision: while one of these lives, LibTorch computes matrix products and convolutions of this thread in
// bfloat16, and what needs more digits in float. Weights, gradients and the optimizer stay float.
//
//   torch::Tensor scores;
//   {
//     const muster::Autocast autocast;
//     scores = net->forward(lane.data);
//   }
//   lane.backward(torch::nn::functional::cross_entropy(scores.to(torch::kFloat32), lane.target));
//
// The forward pass goes inside, the loss and backward() outside. It ends within the lane: LibTorch keeps converted
// weights until the outermost one ends, and after a step they are old.
#pragma once

namespace muster::compute {

class Autocast {
 public:
  // On the CPU. `enabled` = false: as without it, also inside of another one.
  explicit Autocast(bool enabled = true);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  bool before_;
  int type_before_;  // a torch::ScalarType
};

}  // namespace muster::compute
