// Looking at files of a user's to find out what they are: which source reads them, and with what options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/data/sources.h"

namespace muster::data {

struct Finding {
  SourceOptions options = {};
  std::vector<std::string> reasons = {};  // in words, what was seen and what follows from it
};

// Looks at names and first bytes; reads at most the first 4,096 rows of a table. Throws kNotFound, kIo, and
// kInvalidInput if nothing that a source reads is there.
Finding inspect(const std::filesystem::path& path);

}  // namespace muster::data
