// Which tensors weight decay and the trust ratios of LARS and LAMB leave alone. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/model/flat_layout.h"

namespace muster::compute {

enum class Exemption {
  kNone,         // "none": every tensor is treated alike, as torch::optim does
  kBiasAndNorm,  // "bias_and_norm": tensors of at most one dimension, that is biases and the scales of
                 // normalisation
};

// The names that a job file may use.
std::vector<std::string> exemption_names();

// Throws Error{kInvalidInput} that lists the names when `name` is none of them.
Exemption parse_exemption(std::string_view name);
std::string_view to_string(Exemption rule);

bool is_exempt(Exemption rule, const model::TensorSlot& tensor);

}  // namespace muster::compute
