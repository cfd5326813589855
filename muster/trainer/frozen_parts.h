// The parts of a module that do not train, or not yet (compute/tuning.h): keeps LibTorch from computing gradients for
// them, and batch norms among them in evaluation mode. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/compute/tuning.h"

namespace muster::trainer {

class FrozenParts {
 public:
  // Parameters that never train lose their requires_grad here: to everybody else they are constants. What the user has
  // frozen before stays so. Throws as compute::check_tuning.
  FrozenParts(const compute::Tuning& tuning, torch::nn::Module& module);

  // Makes the module what it is in `epoch` (counted from 0). Cheap: called before every step, because others change a
  // module's mode between steps.
  void enter_epoch(std::uint64_t epoch);
  // Whether the tensor is frozen in the epoch that was entered last.
  bool holds(const std::string& name) const;

 private:
  struct Parameter {
    torch::Tensor tensor;
    std::uint64_t epochs;  // finished before it trains
  };
  // One with buffers of its own and no children: a batch norm, wherever it comes from.
  struct Norm {
    torch::nn::Module* module;
    std::uint64_t epochs;  // the largest of its tensors'
  };

  torch::nn::Module* module_;
  std::map<std::string, std::uint64_t> epochs_;  // of all tensors that are frozen at first
  std::vector<Parameter> parameters_;            // those that train later
  std::vector<Norm> norms_;
  std::uint64_t epoch_ = 0;
};

}  // namespace muster::trainer
