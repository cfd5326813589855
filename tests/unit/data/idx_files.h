// Makes IDX files for tests: plain bytes, and any bytes as a gzip member or a zstd frame.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "support.h"

namespace muster::data {

// Header of the given extents, then `payload` bytes 0, 1, 2, ...
inline Bytes idx_bytes(const std::vector<std::uint32_t>& extents, std::size_t payload, int type = 0x08) {
  Bytes bytes = to_bytes({0, 0, type, static_cast<int>(extents.size())});
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes.push_back(static_cast<std::byte>(extent >> shift & 0xFF));
  }
  for (std::size_t i = 0; i < payload; ++i)
    bytes.push_back(static_cast<std::byte>(i & 0xFF));
  return bytes;
}

inline Bytes idx_labels(const std::vector<int>& labels) {
  Bytes bytes = idx_bytes({static_cast<std::uint32_t>(labels.size())}, 0);
  const Bytes values = to_bytes(labels);
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

inline Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(deflateBound(&stream, plain.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline Bytes zstd(const Bytes& plain) {
  Bytes packed(::ZSTD_compressBound(plain.size()));
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 3));
  return packed;
}

}  // namespace muster::data
