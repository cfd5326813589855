// Whether a file is a whole TorchScript archive, found out without LibTorch: what it would trip over, or run, is
// refused before it sees the file. No torch here, and nothing of the file is executed.
//
// The archive's members stand in one folder: data.pkl (the modules' attributes, pickle.h), constants.pkl, data/KEY (the
// bytes of tensors), constants/KEY, version; all stored. code/... is the source of the script, compressed.
#pragma once

#include <filesystem>
#include <string>

#include "muster/model/safetensors.h"

namespace muster::model {

// Throws kNotFound, kInvalidInput (no regular file), kIo, kResource, and what the next does.
void check_script(const std::filesystem::path& path);

// Every member must be inside the file and have the checksum that the directory tells; what is compressed must not grow
// beyond measure; both pickles must be of values, tensors and classes of the script, each tensor inside its storage.
// Throws kDamaged or kUnsupported (a name or instruction that no TorchScript needs, with that name).
void check_script(AlignedBytes archive, const std::string& where);

}  // namespace muster::model
