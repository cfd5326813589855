// The bytes of a file where the kernel keeps them: no memory of the process's own, and pages are read when they are
// looked at. For files that nobody writes to any more.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "muster/base/files.h"

namespace muster {

// For reading. A file that is cut meanwhile, or a disk that fails, ends the process. A value that moves; it may be
// empty.
class FileMapping {
 public:
  FileMapping() = default;
  // Throws kResource.
  FileMapping(const OpenFile& file, const std::filesystem::path& path);
  FileMapping(FileMapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  FileMapping& operator=(FileMapping&& other) noexcept;
  ~FileMapping();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace muster
