// WebP files written by libwebp itself, and BMP files byte by byte, independently of the code under test.
#pragma once

#include <webp/encode.h>

#include <array>
#include <cstdint>
#include <vector>

#include "support.h"
#include "support/picture_files.h"

namespace muster::data {

inline Bytes to_webp(const testing::Pixels& pixels, bool lossless) {
  std::uint8_t* out = nullptr;
  const int width = static_cast<int>(pixels.width);
  const int height = static_cast<int>(pixels.height);
  const std::size_t size = lossless ? WebPEncodeLosslessRGB(pixels.values.data(), width, height, 3 * width, &out)
                                    : WebPEncodeRGB(pixels.values.data(), width, height, 3 * width, 95, &out);
  const auto* begin = reinterpret_cast<const std::byte*>(out);
  Bytes bytes(begin, begin + size);
  WebPFree(out);
  return bytes;
}

struct BmpOptions {
  std::uint32_t header = 40;
  std::uint16_t bits = 24;
  std::uint32_t compression = 0;
  bool top_down = false;
  std::vector<std::uint32_t> masks = {};                  // of 16 and 32 bits
  std::vector<std::array<std::uint8_t, 3>> palette = {};  // red, green, blue
};

// `rows` are the rows of the picture from top to bottom, packed as the format has them, without padding.
inline Bytes to_bmp(std::uint32_t width, std::uint32_t height, const std::vector<std::vector<std::uint8_t>>& rows,
                    const BmpOptions& options = {}) {
  Bytes bytes;
  const auto put = [&bytes](std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i, value >>= 8)
      bytes.push_back(static_cast<std::byte>(value));
  };
  put('B' | 'M' << 8, 2);
  put(0, 8);
  put(0, 4);  // the offset of the rows, filled in below
  put(options.header, 4);
  if (options.header == 12) {
    put(width, 2);
    put(height, 2);
    put(1, 2);
    put(options.bits, 2);
  } else {
    put(width, 4);
    put(options.top_down ? std::uint32_t{0} - height : height, 4);
    put(1, 2);
    put(options.bits, 2);
    put(options.compression, 4);
    put(0, 12);
    put(options.palette.size(), 4);
    put(0, 4);
    for (const std::uint32_t mask : options.masks)
      put(mask, 4);
    while (bytes.size() < 14 + options.header)
      put(0, 1);
  }
  for (const auto& [red, green, blue] : options.palette) {
    put(blue, 1);
    put(green, 1);
    put(red, 1);
    if (options.header != 12) put(0, 1);
  }
  for (int i = 0; i < 4; ++i)
    bytes[static_cast<std::size_t>(10 + i)] = static_cast<std::byte>(bytes.size() >> (8 * i));
  for (std::uint32_t y = 0; y < height; ++y) {
    const auto& row = rows[options.top_down ? y : height - 1 - y];
    for (const std::uint8_t value : row)
      put(value, 1);
    put(0, static_cast<int>((4 - row.size() % 4) % 4));
  }
  return bytes;
}

}  // namespace muster::data
