// A picture file without a library: a square of one grey level, as BMP.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "support/sandbox.h"

namespace muster::testing {

// Pixels of 24 bits; `side` is a multiple of 4. Makes the folders above it.
inline void spill_bmp(const std::filesystem::path& path, std::uint8_t grey, std::uint32_t side = 16) {
  constexpr std::uint32_t kHeaders = 14 + 40;
  std::string bytes = "BM";
  const auto put = [&](std::uint32_t value, int size) {
    for (int i = 0; i < size; ++i)
      bytes += static_cast<char>(value >> (8 * i) & 0xff);
  };
  put(kHeaders + side * side * 3, 4);
  put(0, 4);
  put(kHeaders, 4);
  put(40, 4);
  put(side, 4);
  put(side, 4);
  put(1, 2);
  put(24, 2);
  put(0, 4);  // not compressed
  put(side * side * 3, 4);
  for (int i = 0; i < 4; ++i)
    put(0, 4);
  bytes.append(side * side * 3, static_cast<char>(grey));
  std::filesystem::create_directories(path.parent_path());
  spill(path, bytes);
}

}  // namespace muster::testing
