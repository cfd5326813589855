// The lock is what tells a living folder from an abandoned one: it is held by a descriptor that exec does not close, so
// it is free only when the last process that was started from here has ended.
#include "muster/base/temporary_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "muster/base/files.h"

namespace muster {
namespace {

// Nobody looks for abandoned folders under this name: it is not locked yet.
constexpr std::string_view kUnlocked = "muster-new-";

FileDescriptor open_folder(const std::filesystem::path& path, int flags = 0) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | flags));
}

}  // namespace

TemporaryFolder::TemporaryFolder(std::string_view prefix) {
  const std::filesystem::path parent = std::filesystem::temp_directory_path();
  // mkdtemp replaces the six letters at the end.
  std::string unlocked = (parent / (std::string(kUnlocked) + "XXXXXX")).string();
  if (::mkdtemp(unlocked.data()) == nullptr) throw_system_error("cannot be made", unlocked);
  // Not closed by exec: the processes that are started from here keep the lock.
  lock_ = open_folder(unlocked);
  const std::string letters = unlocked.substr(unlocked.size() - 6);
  path_ = parent / (std::string(prefix) + letters);
  if (!lock_.valid() || ::flock(lock_.get(), LOCK_SH | LOCK_NB) != 0 ||
      ::rename(unlocked.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::rmdir(unlocked.c_str());
    errno = error;
    throw_system_error("cannot be made", path_);
  }
}

TemporaryFolder TemporaryFolder::adopt(const std::filesystem::path& path) {
  TemporaryFolder folder;
  folder.lock_ = open_folder(path);
  if (!folder.lock_.valid() || ::flock(folder.lock_.get(), LOCK_SH | LOCK_NB) != 0)
    throw_system_error("cannot be taken over", path);
  folder.path_ = path;
  return folder;
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void remove_abandoned(std::string_view prefix) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path(), ignored)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const FileDescriptor folder = open_folder(entry.path(), O_CLOEXEC);
    struct stat status {};
    if (!folder.valid() || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace muster
