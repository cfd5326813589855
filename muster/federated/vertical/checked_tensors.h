// Files of tensors that know whether they are whole: a party's checkpoints and its alignment.
//
// They are safetensors whose metadata has the SHA-256 of everything else in them, so that a disk that has turned a bit
// around is noticed before anybody trains on. Thread safety: pure but for the file. No torch here.
#pragma once

#include <filesystem>
#include <span>

#include "muster/model/safetensors.h"

namespace muster::federated {

// Whole or not at all. Throws as model::write_safetensors.
void write_checked(const std::filesystem::path& path, std::span<const model::TensorView> tensors,
                   model::Metadata metadata = {});

// Reads all of it once. Throws Error{kDamaged} for what is not as it was written, and as model::SafetensorsFile.
model::SafetensorsFile open_checked(const std::filesystem::path& path);

}  // namespace muster::federated
