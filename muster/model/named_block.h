// A module of a program's own net, as one of the blocks that the net consists of: what stages are cut between
// (docs/model-parallel.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <torch/torch.h>

namespace muster::model {

// The module takes and gives one tensor, first dimension samples, and must not write to what it takes.
struct NamedBlock {
  template <typename Module>
  NamedBlock(std::string its_name, const torch::nn::ModuleHolder<Module>& holder)
      : NamedBlock(std::move(its_name), holder.ptr()) {}
  template <typename Module>
  NamedBlock(std::string its_name, const std::shared_ptr<Module>& its_module)
      : name(std::move(its_name)),
        module(its_module),
        forward([its_module](const torch::Tensor& x) -> torch::Tensor { return its_module->forward(x); }) {}

  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

}  // namespace muster::model
