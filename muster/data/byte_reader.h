// ByteReader: the bytes of a file from front to back, decompressed when it is gzip or zstd.
//
// Which of the three it is, its first bytes say, not its name. Files of several members one after the other (as pigz,
// bgzip and cat make them) are read through. Memory is bounded whatever the file claims: one buffer of 256 KiB for what
// is compressed, zlib's window (32 KiB), and of zstd windows of at most 128 MiB (what its levels up to 19 use is 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::data {

// Thread safety: one thread at a time.
class ByteReader {
 public:
  // Throws kNotFound, kInvalidInput (not a regular file), kIo, kResource.
  static std::unique_ptr<ByteReader> open(const std::filesystem::path& path);
  // The same for bytes in memory, which must outlive the reader; `where` names them in errors.
  static std::unique_ptr<ByteReader> of_memory(std::span<const std::byte> bytes, std::string where);

  virtual ~ByteReader() = default;
  ByteReader() = default;
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  // Fills the front of `out` and says how much: all of it, except at the end. 0: the end, or nothing asked for. Throws
  // kDamaged (the compressed data is cut or altered), kIo, kResource.
  virtual std::size_t read(std::span<std::byte> out) = 0;
};

// The rest of the reader's bytes. Throws as read, and kResource when there are more than `limit_bytes` or than memory.
std::vector<std::byte> read_all(ByteReader& reader, std::uint64_t limit_bytes, const std::string& where);

}  // namespace muster::data
