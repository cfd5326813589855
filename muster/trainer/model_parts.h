// The parts of a model that a session trains as one: a generator and its critic, an actor and a critic, a student and
// its teacher. Each has a module and an optimizer of its own; they share steps, cursor, checkpoints and recovery.
//
// To everything else they are one module with the parts as its children, so a tensor's name begins with its part's.
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/trainer/part_options.h"

namespace muster::trainer {

// One of them, as a program says it: {"critic", critic, muster::Adam{.lr = 1e-4}}.
struct ModelPart {
  ModelPart(std::string name, std::shared_ptr<torch::nn::Module> net,
            std::optional<compute::OptimizerOptions> optimizer = {}, std::optional<compute::Schedule> schedule = {})
      : options{std::move(name), std::move(optimizer), std::move(schedule)}, module(std::move(net)) {}
  // LibTorch's module holders (TORCH_MODULE(Net)).
  template <typename Contained>
  ModelPart(std::string name, const torch::nn::ModuleHolder<Contained>& net,
            std::optional<compute::OptimizerOptions> optimizer = {}, std::optional<compute::Schedule> schedule = {})
      : ModelPart(std::move(name), std::static_pointer_cast<torch::nn::Module>(net.ptr()), std::move(optimizer),
                  std::move(schedule)) {}

  PartOptions options;
  std::shared_ptr<torch::nn::Module> module;
};

class ModelParts {
 public:
  // Parameters of parts without an optimizer lose their requires_grad: to everybody else they are constants. Throws
  // Error{kInvalidInput} that names the part: an empty or repeated name, one with a dot, a module that is not there,
  // a part without an optimizer that has parameters of another, and when no part has an optimizer.
  explicit ModelParts(std::vector<ModelPart> parts);
  // A model in one piece, whose tensors keep their names.
  ModelParts(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer);

  // All of it: the only module, or one that has them as children.
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  std::size_t count() const { return parts_.size(); }
  const PartOptions& options(std::size_t part) const { return parts_[part].options; }
  // Which part a tensor of module() is of; what several have is the first one's.
  std::size_t part_of(std::string_view tensor) const;
  // The parameters of that part that get gradients now. Throws Error{kInvalidInput} with the names that there are.
  std::vector<torch::Tensor> trainable(std::string_view name) const;

 private:
  std::vector<ModelPart> parts_;
  std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace muster::trainer
