// Switches requires_grad and the mode of batch norms at the beginning of an epoch, by the decisions of
// compute/tuning.h. What the user has frozen stays so.
#include "muster/trainer/frozen_parts.h"

#include <algorithm>
#include <optional>

namespace muster::trainer {
namespace {

// How long all tensors of a module stay frozen together: a batch norm that is frozen in part trains.
std::uint64_t epochs_of_all(const compute::Tuning& tuning, const torch::nn::Module& module, const std::string& prefix) {
  std::uint64_t fewest = compute::kFrozenForever;
  const auto look = [&](const auto& items) {
    for (const auto& item : items)
      fewest = std::min(fewest, compute::frozen_epochs(tuning, prefix + item.key()));
  };
  look(module.named_parameters(/*recurse=*/false));
  look(module.named_buffers(/*recurse=*/false));
  return fewest;
}

}  // namespace

FrozenParts::FrozenParts(const compute::Tuning& tuning, torch::nn::Module& module) : module_(&module) {
  const auto parameters = module.named_parameters();
  const auto buffers = module.named_buffers();
  compute::check_tuning(tuning, parameters.keys(), buffers.keys());
  if (tuning.freeze.empty()) return;
  for (const auto& item : parameters) {
    const std::uint64_t epochs = compute::frozen_epochs(tuning, item.key());
    if (epochs == 0) continue;
    epochs_[item.key()] = epochs;
    if (epochs == compute::kFrozenForever) {
      torch::Tensor(item.value()).requires_grad_(false);
    } else if (item.value().requires_grad()) {
      parameters_.push_back({item.value(), epochs});
    }
  }
  for (const auto& item : buffers) {
    if (const std::uint64_t epochs = compute::frozen_epochs(tuning, item.key()); epochs > 0)
      epochs_[item.key()] = epochs;
  }
  for (const auto& item : module.named_modules()) {
    const std::string prefix = item.key().empty() ? "" : item.key() + ".";
    const torch::nn::Module& part = *item.value();
    if (part.named_buffers(/*recurse=*/false).is_empty() || !part.children().empty()) continue;
    if (const std::uint64_t epochs = epochs_of_all(tuning, part, prefix); epochs > 0)
      norms_.push_back({item.value().get(), epochs});
  }
}

void FrozenParts::enter_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  for (const Parameter& parameter : parameters_) {
    const bool trains = epoch >= parameter.epochs;
    if (parameter.tensor.requires_grad() != trains) torch::Tensor(parameter.tensor).requires_grad_(trains);
  }
  for (const Norm& norm : norms_) {
    const bool trains = epoch >= norm.epochs && module_->is_training();
    if (norm.module->is_training() != trains) norm.module->train(trains);
  }
}

bool FrozenParts::holds(const std::string& name) const {
  const auto found = epochs_.find(name);
  return found != epochs_.end() && epoch_ < found->second;
}

}  // namespace muster::trainer
