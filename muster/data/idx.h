// IDX, the format of MNIST and its relatives, plain, as one gzip member or as zstd (told apart by content, not by
// name).
//
//   byte 0-1   0
//   byte 2     element type; 0x08 = unsigned byte is the only one read here
//   byte 3     number of dimensions, 1 to 8 here
//   then       one big-endian 32-bit extent per dimension
//   then       the elements, last dimension fastest, up to the end of the file
//
// The header is not believed: its extents are multiplied with overflow checks and compared with what the file can
// hold (for gzip: DEFLATE never expands more than 1032 times), and memory grows only with bytes that were really
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/data/images.h"

namespace muster::data {

struct IdxArray {
  std::vector<std::uint64_t> extents;
  std::vector<std::uint8_t> values;  // the product of the extents
};

// The array in the bytes of a file; `where` names it in errors. Throws kDamaged (wrong magic, cut, sizes that
// cannot be, bytes left over, damage to compressed data), kUnsupported (another element type) or kResource (out of
// memory).
IdxArray parse_idx(std::span<const std::byte> file, const std::string& where);

// The same from a path. Throws as parse_idx, and kNotFound, kInvalidInput (not a regular file) or kIo.
IdxArray read_idx(const std::filesystem::path& path);

// Images (3 dimensions: count, height, width) and their labels (1 dimension). `classes` is that of the
// training set, when this is another set; empty: the largest label + 1, at least 2. Throws as read_idx, and
// kMismatch if the files disagree on the count or a label is not below `classes`.
Images read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels,
                       std::optional<std::int64_t> classes = std::nullopt);

}  // namespace muster::data
