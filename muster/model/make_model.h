// A model by its name, with initial weights that are a function of the seed; or a TorchScript file as it is; or a model
// of a user's shared object.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/model/net.h"
#include "muster/model/registry.h"

namespace muster::model {

// Seeds torch's default generator from (`seed`, Purpose::kModelInit) and builds the model, in training mode. Throws
// kInvalidInput: an unknown name (says the nearest and all), an input shape that the model cannot take, an option that
// it does not have. A script has its weights already; it throws as load_script() and require_fit() (script_net.h), a
// library as make_user_model() (user_library.h).
std::shared_ptr<Net> make_model(const ModelOptions& options, std::uint64_t seed);

}  // namespace muster::model
