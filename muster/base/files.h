// Files that are whole or not there: bounded reading, atomic writing.
//
// Atomic means: written under a temporary name in the same folder, fsync of the file, rename, fsync of the folder. A
// crash at any instruction leaves the old file or the new one. Errors are muster::Error naming the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// An open descriptor, closed when it goes out of scope. A value that moves.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

// Opens a regular file for reading and gives its size. Throws kNotFound, kInvalidInput (a folder, a device) or kIo.
struct OpenFile {
  FileDescriptor descriptor;
  std::uint64_t size = 0;
};
OpenFile open_for_reading(const std::filesystem::path& path);

// Fills `out` from `offset`. Throws kDamaged if the file ends before, kIo.
void read_exactly(const OpenFile& file, std::uint64_t offset, std::span<std::byte> out,
                  const std::filesystem::path& path);

// The whole file as text. Throws kDamaged if it is larger than `limit_bytes`; nothing is allocated in that case.
std::string read_text(const std::filesystem::path& path, std::uint64_t limit_bytes);

// A file that appears under its final name only by commit(); destroyed before that, it leaves nothing behind.
// Thread safety: one thread at a time. REQUIRES: no other AtomicFile of this process for the same path; of several
// processes the last to commit wins.
class AtomicFile {
 public:
  // Throws kNotFound (no such folder), kResource or kIo.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Throws kResource (disk full) or kIo.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Durable under the final name when it returns. Throws as write; what then stands under the final name is what stood
  // there before, or, if only the last fsync failed, the new file.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor descriptor_;
};

// AtomicFile in one call.
void write_atomically(const std::filesystem::path& path, std::string_view text);

// Creates a folder and the ones above it. Throws kNotFound (a file stands in the way), kIo or kResource.
void make_folder(const std::filesystem::path& path);

// Makes renames and removals inside `folder` durable.
void sync_folder(const std::filesystem::path& folder);

// The Error for the current errno: kNotFound, kResource (ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE,
// ENOMEM) or kIo.
[[noreturn]] void throw_system_error(std::string_view action, const std::filesystem::path& path);

}  // namespace muster
