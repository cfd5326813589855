#include "muster/base/temporary_folder.h"

#include <stdlib.h>

#include <string>

#include "muster/base/files.h"

namespace muster {

TemporaryFolder::TemporaryFolder(std::string_view prefix) {
  // mkdtemp replaces the six letters at the end.
  std::string pattern = (std::filesystem::temp_directory_path() / (std::string(prefix) + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) throw_system_error("cannot be made", pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace muster
