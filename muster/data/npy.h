// NumPy arrays: the header of an .npy file and its elements as floats or integers.
//
// An .npy file is the magic "\x93NUMPY", a version, the length of a header, the header and the elements. The header is
// a Python dictionary of exactly three keys; it is read by a parser of that form alone, never evaluated. Read are
// bool, integers of 1 to 8 bytes, and floats of 2, 4 and 8 bytes, little or big end first, in C order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::data {

enum class NpyType { kBool, kInt, kUnsigned, kFloat };

struct NpyHeader {
  NpyType type = NpyType::kFloat;
  std::size_t item_bytes = 4;  // 1, 2, 4 or 8
  bool big_endian = false;
  std::vector<std::int64_t> shape = {};  // empty for a scalar; entries may be 0
  std::uint64_t data_offset = 0;         // of the first element
  std::uint64_t elements = 1;

  std::uint64_t data_bytes() const { return elements * item_bytes; }
  bool is_integer() const { return type != NpyType::kFloat; }
};

// Enough bytes for every header that is read.
inline constexpr std::size_t kMostNpyHeader = 64 << 10;

// Parses the front of a file of `file_bytes` bytes, of which `front` is the first min(file_bytes, kMostNpyHeader).
// Throws kDamaged (not an .npy file, another number of elements than the file has room for), kUnsupported (another
// element type, Fortran order), each with `where`.
NpyHeader parse_npy_header(std::span<const std::byte> front, std::uint64_t file_bytes, const std::string& where);

// The elements in `bytes` as floats: `out` has as many. REQUIRES: bytes.size() == out.size() * item_bytes.
void npy_floats(const NpyHeader& header, std::span<const std::byte> bytes, std::span<float> out);

// The one element in `bytes` as an integer; floats are cut. REQUIRES: bytes.size() == item_bytes.
std::int64_t npy_integer(const NpyHeader& header, std::span<const std::byte> bytes);

}  // namespace muster::data
