// A folder for a while: empty and private (0700) at first, removed with all that is in it at the end of the scope.
//
// It is locked (flock, shared) by this process and by all that it starts: a folder that nobody has locked was left
// behind by processes that were killed, and remove_abandoned() takes it away.
#pragma once

#include <filesystem>
#include <string_view>

#include "muster/base/files.h"

namespace muster {

class TemporaryFolder {
 public:
  // In the system's folder for such, under `prefix` and random letters. Throws kIo, kNotFound or kResource.
  explicit TemporaryFolder(std::string_view prefix);
  // One that another process has made, and cannot remove any more. Throws kNotFound.
  static TemporaryFolder adopt(const std::filesystem::path& path);
  TemporaryFolder(TemporaryFolder&& other) noexcept = default;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryFolder() = default;
  std::filesystem::path path_;  // empty after a move
  FileDescriptor lock_;
};

// Removes this user's temporary folders of that prefix whose processes are all dead.
void remove_abandoned(std::string_view prefix);

}  // namespace muster
