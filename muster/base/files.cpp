// The order of write, fsync, rename and fsync of the folder is the whole point here: each one less loses a file in some
// crash. Names that somebody else may have laid (pipes, links) are refused, never waited for or written through.
#include "muster/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "muster/base/draft_name.h"
#include "muster/base/error.h"

namespace muster {
namespace {

// A folder as fsync wants it: never empty.
std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Whether `path` is still the file that `descriptor` has open.
bool is_named(const FileDescriptor& descriptor, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

void throw_system_error(std::string_view action, const std::filesystem::path& path) {
  const int code = errno;
  const std::string message = fmt::format("{}: {}", action, std::strerror(code));
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      throw Error(ErrorKind::kNotFound, message, path.string());
    case ENOSPC:
    case EDQUOT:
      throw Error(ErrorKind::kResource, message, path.string(), "Free some disk space.");
    case EFBIG:
      throw Error(ErrorKind::kResource, message, path.string(), "Raise the limit on file sizes (ulimit -f).");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      throw Error(ErrorKind::kResource, message, path.string());
    default:
      throw Error(ErrorKind::kIo, message, path.string());
  }
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (valid()) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (valid()) ::close(fd_);
}

int FileDescriptor::release() {
  return std::exchange(fd_, -1);
}

OpenFile open_for_reading(const std::filesystem::path& path) {
  // Non-blocking, so that a pipe under the name is refused below and not waited for.
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) throw_system_error("cannot be opened", path);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) throw_system_error("cannot be examined", path);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kInvalidInput, S_ISDIR(status.st_mode) ? "is a folder, not a file" : "is not a regular file",
                path.string());
  }
  return {std::move(descriptor), static_cast<std::uint64_t>(status.st_size)};
}

void read_exactly(const OpenFile& file, std::uint64_t offset, std::span<std::byte> out,
                  const std::filesystem::path& path) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(file.descriptor.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_system_error("cannot be read", path);
    }
    if (count == 0) {
      throw Error(ErrorKind::kDamaged,
                  fmt::format("ends at byte {}, expected {} bytes from byte {}", offset + done, out.size(), offset),
                  path.string());
    }
    done += static_cast<std::size_t>(count);
  }
}

std::string read_text(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const OpenFile file = open_for_reading(path);
  if (file.size > limit_bytes) {
    throw Error(ErrorKind::kDamaged, fmt::format("has {} bytes; at most {} are accepted", file.size, limit_bytes),
                path.string());
  }
  std::string text(file.size, '\0');
  read_exactly(file, 0, std::as_writable_bytes(std::span(text)), path);
  return text;
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  // Between creation and lock somebody who cleans up may take the file away: then once more, under another name.
  constexpr int kTries = 10;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    // Hidden: a crashed writer's left-over is recognised and never mistaken for data.
    temporary_ = folder_of(path_) / draft_name(path_.filename().string());
    descriptor_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!descriptor_.valid()) throw_system_error("cannot be created", path_);
    // As long as it is held nobody takes this for a left-over. A file system without locks is no obstacle to writing.
    ::flock(descriptor_.get(), LOCK_EX | LOCK_NB);
    if (is_named(descriptor_, temporary_)) return;
  }
  throw Error(ErrorKind::kIo, "is taken away again and again while it is written", temporary_.string());
}

AtomicFile::~AtomicFile() {
  if (descriptor_.valid()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_system_error("cannot be written", path_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  if (::fsync(descriptor_.get()) != 0) throw_system_error("cannot be made durable", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_system_error("cannot be renamed into place", path_);
  descriptor_ = FileDescriptor();
  sync_folder(folder_of(path_));
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void make_folder(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) {
    errno = code.value();
    throw_system_error("cannot be created", path);
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.valid()) throw_system_error("cannot be opened", folder);
  if (::fsync(descriptor.get()) != 0) throw_system_error("cannot be made durable", folder);
}

}  // namespace muster
