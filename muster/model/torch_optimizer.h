// The state of an optimizer as Python's torch.optim keeps it, in a .pth file, and as a Muster checkpoint has it.
//
// torch.optim numbers parameters in the order of its groups and keeps, by number, momentum_buffer (SGD) or step,
// exp_avg and exp_avg_sq (Adam, AdamW); beside them each group's rates. A checkpoint has "<slot>/<parameter>" and
// "updates/<parameter>", an int64. Where torch has no state of a parameter yet, the slots here are zeros and updates is
// 0. SGD counts no steps in torch: a parameter with a momentum_buffer gets 1, which is all that SGD looks at.
// No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/model/pth.h"
#include "muster/model/safetensors.h"

namespace muster::model {

// A rate or a switch of a group: None, a bool, a number or Adam's pair of betas.
using TorchOption = std::variant<std::monostate, bool, double, std::pair<double, double>>;

struct TorchGroup {
  std::vector<std::pair<std::string, TorchOption>> options;  // under torch's names: "lr", "betas"
  std::vector<std::string> parameters;
};

// Writes what optimizer.load_state_dict(torch.load(path)) takes; each group also names its parameters ("param_names").
// `state` are tensors of a checkpoint; those of parameters that were never updated are left out. Throws kResource or
// kIo, and kDamaged with `where` for a tensor of a group that is missing.
void write_torch_optimizer(const std::filesystem::path& path, std::span<const TorchGroup> groups,
                           std::span<const TensorView> state, const std::string& where);

// A parameter of the model that gets the state.
struct StateOwner {
  std::string name;
  std::vector<std::int64_t> shape;
};

struct OptimizerState {
  std::vector<TensorView> tensors;  // as a checkpoint has them, for every parameter and slot
  std::vector<std::string> notes;
  std::vector<std::shared_ptr<const void>> memory;  // what they look into
};

// The state of `parameters`, in the order in which the model registers them, of an optimizer with these slots. Throws
// what PthFile throws; kInvalidInput (no optimizer's state dict); kMismatch (another number of parameters, another
// shape, another kind of optimizer); kUnsupported (several groups that do not name their parameters).
OptimizerState read_torch_optimizer(const std::filesystem::path& path, std::span<const StateOwner> parameters,
                                    std::span<const std::string> slots);

}  // namespace muster::model
