// Loads models from a user's shared object (user_models.h says how one is written).
#pragma once

#include <memory>

#include "muster/base/shared_object.h"
#include "muster/model/net.h"
#include "muster/model/registry.h"

namespace muster::model {

// Builds the model `options.name` of `options.library`, a path; a relative one is relative to the current folder. The
// file stays loaded to the end of the process, since the model's code is in it. Throws kNotFound: there is no such
// file, or no such model in it (says which there are); kMismatch: the file's hash is not `options.library_sha256`, or
// it was built for another version of Muster or LibTorch; kInvalidInput: it is no shared object with models, or it
// could not be loaded (says the loader's reason), or its model cannot be built with these options; the place is the key
// ("model.options.depth") where one of them is at fault.
std::shared_ptr<Net> make_user_model(const ModelOptions& options);
// What the library says of that model. Throws the same, options aside.
PartHelp user_model_help(const ModelOptions& options);

}  // namespace muster::model
