// What of a script does not follow its mode: torch.jit.trace() writes the mode of the moment into every dropout and
// batch norm, so that a script that was traced for evaluation trains without its dropout, and nobody notices.
#pragma once

#include <string>
#include <vector>

#include <torch/script.h>

namespace muster::model {

// In words, one sentence for each kind: "1 dropout is fixed to evaluation: ...". What the script itself does only in
// one mode (under `if self.training`) is no such thing.
std::vector<std::string> fixed_modes(const torch::jit::Module& script);

}  // namespace muster::model
