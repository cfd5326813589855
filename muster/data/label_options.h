// What a job says about pictures whose labels are in a CSV file. Apart from the reader's own header, since everything
// that opens data includes it.
#pragma once

#include <filesystem>
#include <string>

namespace muster::data {

struct LabelOptions {
  std::filesystem::path file = {};  // the CSV file, with a header; empty: folders are classes
  std::string file_column = {};     // of the pictures' names, relative to the folder; empty: the first
};

}  // namespace muster::data
