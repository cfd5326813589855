// safetensors: named tensors in one file, readable by anyone and with no code inside. Reader and writer.
//
// The format: 8 bytes little-endian N, then N bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin,
// end]}, "__metadata__": {text: text}}, then the data, tensor after tensor without holes. Offsets count from the
// data's first byte. A reader that trusts none of it costs little: the whole header is validated before anything is
// allocated for data. Thread safety: values; const methods from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_mapping.h"
#include "muster/base/files.h"

namespace muster::model {

enum class Dtype { kF64, kI64, kF32, kI32, kF16, kBf16, kI16, kI8, kU8, kBool };

std::uint64_t bytes_of(Dtype dtype);
// The format's own name: "F32".
std::string_view to_string(Dtype dtype);

// What a reader accepts and the writer keeps to; each bounds what a hostile header can make us allocate. The
// format allows headers of 100 MB, which no 65536 tensors need and which a JSON parser turns into several
// times as much memory.
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{16} * 1024 * 1024;
constexpr std::size_t kMostTensors = 65536;  // and as many metadata members
constexpr std::size_t kMostDimensions = 64;
// The writer pads the header with spaces so that data starts at a multiple of this (the format's minimum is 8).
constexpr std::uint64_t kDataAlignment = 64;

// A tensor that somebody else owns. `data` is little-endian, in row-major order.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // from the data's first byte
  std::uint64_t end = 0;
  std::uint64_t bytes() const { return end - begin; }
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in order of their data
  std::map<std::string, std::size_t, std::less<>> index;
  Metadata metadata;
  std::uint64_t data_begin = 0;  // position in the file

  // Null when there is none of that name.
  const TensorEntry* find(std::string_view name) const;
};

// Bytes of the JSON header that a file starting with `prefix` announces. Throws kDamaged if the file cannot
// hold it or it is larger than kMostHeaderBytes.
std::uint64_t safetensors_header_bytes(std::span<const std::byte, 8> prefix, std::uint64_t file_size,
                                       const std::string& where);

// Parses and validates the start of a file of `file_size` bytes; `head` holds at least the 8 bytes and the
// JSON. Throws kDamaged with the reason: not JSON, not UTF-8, a repeated name, an unknown type or member, a
// number that is negative or no integer, a shape whose size overflows or is not the data's, data with a hole,
// an overlap or another end than the file's.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_size,
                                           const std::string& where);

// An open file whose header is valid.
class SafetensorsFile {
 public:
  // Throws kNotFound, kInvalidInput (no regular file), kIo or kDamaged.
  explicit SafetensorsFile(std::filesystem::path path);

  const SafetensorsHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return path_; }
  // Fills `out` with the tensor's bytes. Throws kNotFound (no such tensor; says the nearest name), kMismatch
  // (`out` has another size), kDamaged (the file was cut since it was opened) or kIo.
  void read(std::string_view name, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  OpenFile file_;
  SafetensorsHeader header_;
};

// Bytes on a kDataAlignment boundary, uninitialised. Moves; null when empty.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Throws kResource naming `where` when memory is short.
  AlignedBytes(std::uint64_t size, const std::string& where);
  std::span<std::byte> span() { return {bytes_.get(), size_}; }
  std::span<const std::byte> span() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t size_ = 0;
};

// A whole safetensors file, in memory or where the kernel keeps it.
class TensorSet {
 public:
  TensorSet() = default;
  // Throws kDamaged as parse_safetensors_header does.
  TensorSet(AlignedBytes file, const std::string& where);
  TensorSet(FileMapping file, const std::string& where);

  const SafetensorsHeader& header() const { return header_; }
  std::span<const std::byte> data(const TensorEntry& entry) const;
  // The tensor called `name`. Throws kNotFound, with the nearest name there is.
  TensorView tensor(std::string_view name) const;

 private:
  AlignedBytes file_;
  FileMapping mapped_;
  std::span<const std::byte> bytes_;  // of one of them
  SafetensorsHeader header_;
  std::string where_;
};

// Length and hash of something written.
struct FileDigest {
  std::uint64_t bytes = 0;
  std::string sha256;
};

using ByteSink = std::function<void(std::span<const std::byte>)>;

// Streams a safetensors file into `sink`, in pieces of at most 1 MiB. Wider types come first and otherwise
// the given order is kept, so that every tensor is aligned to its own type. Throws kInvalidInput before the
// first call: a name that is repeated, reserved or not UTF-8, data of another size than the shape, more than
// the limits above.
FileDigest encode_safetensors(std::span<const TensorView> tensors, const Metadata& metadata, const ByteSink& sink);

// encode_safetensors into a file, atomically. Throws also kResource or kIo; then `path` is as it was.
FileDigest write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                             const Metadata& metadata = {});

}  // namespace muster::model
