// Which clients of a server train which of federated.submodels, from 1: a file of the run's folder. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>

namespace muster::federated {

using ChosenSubmodels = std::map<std::uint64_t, std::uint64_t>;  // by client

// None, if there is no file; no number is above `most`. Throws Error{kDamaged | kIo | kResource}.
ChosenSubmodels read_chosen_submodels(const std::filesystem::path& path, std::size_t most);
// Durable when it returns. Throws Error{kIo | kResource}.
void write_chosen_submodels(const std::filesystem::path& path, const ChosenSubmodels& chosen);

}  // namespace muster::federated
