// Looking at files of a user's to find out what they are: which source reads them, and with what options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/data/sources.h"

namespace muster::data {

// What the user knows better. Empty: found out.
struct InspectOptions {
  std::vector<std::string> targets = {};  // columns to predict, of tables and of labels of pictures
  std::vector<std::string> ignore = {};   // columns of a table to leave out, beside those that are found
  std::string task = {};                  // classification, regression or language
  std::vector<std::int64_t> shape = {};   // of pictures
};

struct Finding {
  SourceOptions options = {};
  std::vector<std::string> reasons = {};  // in words, what was seen and what follows from it
};

// Looks at names and first bytes; reads a table to its end, to know how many values its columns have, the targets of
// arrays, and the headers of some pictures. Throws kNotFound, kIo, and kInvalidInput if nothing that a source reads is
// there, or if the user's wishes do not fit what is.
Finding inspect(const std::filesystem::path& path, const InspectOptions& wishes = {});

}  // namespace muster::data
