// Makes .npy files and .npz archives for tests, independently of the code under test.
#pragma once

#include <zlib.h>

#include <cstring>
#include <string>
#include <vector>

#include "support.h"

namespace muster::data {

inline Bytes npy_bytes(const std::string& dictionary, const Bytes& data, int version = 1) {
  std::string header = dictionary;
  while ((header.size() + 11) % 64 != 0)
    header += ' ';
  header += '\n';
  Bytes bytes = to_bytes({0x93, 'N', 'U', 'M', 'P', 'Y', version, 0});
  for (std::size_t i = 0; i < (version == 1 ? 2U : 4U); ++i)
    bytes.push_back(static_cast<std::byte>(header.size() >> (8 * i)));
  for (const char c : header)
    bytes.push_back(static_cast<std::byte>(c));
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

template <typename T>
Bytes raw(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline std::string npy_dictionary(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

template <typename T>
Bytes npy(const std::string& descr, const std::string& shape, const std::vector<T>& values) {
  return npy_bytes(npy_dictionary(descr, shape), raw(values));
}

struct ZipEntry {
  std::string name;
  Bytes contents;
};

inline Bytes zip(const std::vector<ZipEntry>& entries, bool deflated) {
  Bytes archive;
  Bytes directory;
  const auto put = [](Bytes& out, std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i)
      out.push_back(static_cast<std::byte>(value >> (8 * i)));
  };
  const auto append = [](Bytes& out, const auto& bytes) {
    for (const auto byte : bytes)
      out.push_back(static_cast<std::byte>(byte));
  };
  for (const ZipEntry& entry : entries) {
    Bytes stored = entry.contents;
    if (deflated) {
      z_stream stream{};
      EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
      stored.resize(deflateBound(&stream, entry.contents.size()));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(entry.contents.data()));
      stream.avail_in = static_cast<uInt>(entry.contents.size());
      stream.next_out = reinterpret_cast<Bytef*>(stored.data());
      stream.avail_out = static_cast<uInt>(stored.size());
      EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
      stored.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const std::uint32_t crc = static_cast<std::uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(entry.contents.data()), static_cast<uInt>(entry.contents.size())));
    const std::size_t offset = archive.size();
    const auto common = [&](Bytes& out) {
      put(out, 20, 2);
      put(out, 0, 2);
      put(out, deflated ? 8 : 0, 2);
      put(out, 0, 4);
      put(out, crc, 4);
      put(out, stored.size(), 4);
      put(out, entry.contents.size(), 4);
      put(out, entry.name.size(), 2);
      put(out, 0, 2);
    };
    put(archive, 0x04034B50, 4);
    common(archive);
    append(archive, entry.name);
    append(archive, stored);
    put(directory, 0x02014B50, 4);
    put(directory, 20, 2);
    common(directory);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 2);
    put(directory, 0, 4);
    put(directory, offset, 4);
    append(directory, entry.name);
  }
  const std::size_t start = archive.size();
  append(archive, directory);
  put(archive, 0x06054B50, 4);
  put(archive, 0, 4);
  put(archive, entries.size(), 2);
  put(archive, entries.size(), 2);
  put(archive, directory.size(), 4);
  put(archive, start, 4);
  put(archive, 0, 2);
  return archive;
}

}  // namespace muster::data
