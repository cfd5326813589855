// An optimizer's options as a JSON object, for those who are told or asked which optimizer it is: its name and every
// option under its own name. No torch here.
#pragma once

#include <string>

#include "muster/base/json.h"
#include "muster/compute/optimizer.h"

namespace muster::compute {

Json to_json(const OptimizerOptions& options);
// Throws kDamaged with `where` if a member is missing, of another type, or names no optimizer.
OptimizerOptions optimizer_from_json(const Json& json, const std::string& where);

}  // namespace muster::compute
