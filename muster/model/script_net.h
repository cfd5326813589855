// A TorchScript file as a Net: the network, its weights and its mode are the file's, and everything that trains torch
// modules (ModuleBinding, sessions, checkpoints, evaluation) trains it.
//
// Parameters and buffers keep the names they have in the script. The graph executor does not optimise: it would profile
// the first runs of every process and then compute with other kernels, and so with other bits. A file is code: load
// only files that you would also run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "muster/model/net.h"
#include "muster/model/registry.h"

namespace muster::model {

// In training mode. Weights that were tied when the file was saved are tied again. Throws kNotFound or kIo; kDamaged
// for a file that is cut or is no TorchScript; kUnsupported naming a parameter that is not fp32, for a script without
// parameters (frozen, or made of constants), and for a forward() that is not of one tensor.
std::shared_ptr<Net> load_script(const std::filesystem::path& path);

// What of a script trains, and hardly as it was meant to (script_modes.h), in sentences; nothing for other models.
std::vector<std::string> script_doubts(const Net& net);

// Tries one batch in evaluation mode, on zeros: that scripts and models of libraries fit the data is known only so.
// Throws kMismatch unless `net` takes samples of the options' shape (tokens, where there is a vocabulary) and gives
// `classes` scores for each, or for each position.
void require_fit(Net& net, const ModelOptions& options);

}  // namespace muster::model
