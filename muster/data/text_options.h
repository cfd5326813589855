// What a job says about text.
#pragma once

#include <cstdint>

namespace muster::data {

struct TextOptions {
  bool bytes = false;        // tokens are bytes; else characters
  std::int64_t window = 64;  // tokens of a sample
  bool latin1 = false;       // of characters: the file is Latin-1; else UTF-8
};

}  // namespace muster::data
