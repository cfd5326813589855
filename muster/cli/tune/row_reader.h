// Rows of JSON in a file that another process appends to: those that have become whole since the last look.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/json.h"

namespace muster::cli {

class RowReader {
 public:
  explicit RowReader(std::filesystem::path file) : file_(std::move(file)) {}

  // Lines that are no JSON object are left out: what programs print beside their figures. None while there is no file.
  std::vector<Json> read();

 private:
  std::filesystem::path file_;
  std::uint64_t offset_ = 0;
  std::string rest_;  // of a line that is not whole yet
};

}  // namespace muster::cli
