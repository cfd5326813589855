// Puts the weights of a file into a model.
#pragma once

#include <span>
#include <string>

#include "muster/model/init_report.h"
#include "muster/model/net.h"

namespace muster::model {

// Parameters and buffers of `module` under their names; tied ones once.
std::vector<InitTarget> init_targets(const torch::nn::Module& module);

// Loads what fits. Throws Error{kMismatch} naming `where` and every tensor that is missing or of another shape and that
// no pattern of `skip` names; then the module is unchanged. kInvalidInput as compare_weights().
InitReport initialize(torch::nn::Module& module, const Weights& weights, std::span<const std::string> skip,
                      const std::string& where);

}  // namespace muster::model
