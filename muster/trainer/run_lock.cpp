// flock on a file that is there anyway: nothing to clean up, and gone with the process. Tried for a while, because
// whoever held it may be dying.
#include "muster/trainer/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::milliseconds kLookInterval{5};
constexpr const char* kLocked = "job.toml";

// False: somebody else holds it still. Where there are no locks nobody is kept out.
bool lock_before(const FileDescriptor& descriptor, const Deadline& deadline) {
  while (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return true;
    if (deadline.passed()) return false;
    system_clock().sleep_for(kLookInterval);
  }
  return true;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run, const Deadline& deadline) : run_(std::filesystem::absolute(run)) {
  const std::filesystem::path file = run / kLocked;
  // A network file system locks only what may be written.
  descriptor_ = FileDescriptor(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor_.valid() && (errno == EACCES || errno == EROFS))
    descriptor_ = FileDescriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor_.valid()) throw_system_error("cannot be opened", file);
  if (!lock_before(descriptor_, deadline))
    throw Error(
        ErrorKind::kMismatch, "another process is training this run", run.string(),
        fmt::format("Look at it with muster status {}, or start a run of its own without --resume.", run.string()));
}

CheckpointFolderLock::CheckpointFolderLock(std::filesystem::path folder, const Deadline& deadline)
    : folder_(std::move(folder)) {
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  descriptor_ = FileDescriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor_.valid()) throw_system_error("cannot be opened", folder_);
  if (!lock_before(descriptor_, deadline))
    throw Error(ErrorKind::kMismatch, "another program, or another session, writes its checkpoints here",
                folder_.string(), "Name a folder of its own for each, or end the other one first.");
}

bool RunLock::run_is_gone() const {
  // By its file: while a folder is removed something new may be written into it. Not by inodes, which some file systems
  // give out anew.
  struct stat file {};
  return ::stat((run_ / kLocked).c_str(), &file) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

}  // namespace muster::trainer
