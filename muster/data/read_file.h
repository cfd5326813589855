// A data file as bytes in memory, for parsers that work on memory (and so can be fuzzed).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "muster/base/files.h"

namespace muster::data {

// The whole file. Throws what open_for_reading and read_exactly throw, and kResource if it does not fit into memory.
std::vector<std::byte> read_file(const OpenFile& file, const std::filesystem::path& path);

}  // namespace muster::data
