// A folder for a while: empty and private (0700) at first, removed with all that is in it at the end of the scope.
#pragma once

#include <filesystem>
#include <string_view>

namespace muster {

class TemporaryFolder {
 public:
  // In the system's folder for such, under `prefix` and random letters. Throws kIo, kNotFound or kResource.
  explicit TemporaryFolder(std::string_view prefix);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace muster
