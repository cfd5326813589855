// exists() with an error code says false of what it could not look at, too; of a path that leads nowhere it gives no
// code.
#include "muster/federated/is_there.h"

#include <cerrno>
#include <system_error>

#include "muster/base/files.h"

namespace muster::federated {

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  const bool there = std::filesystem::exists(path, code);
  if (!code) return there;
  errno = code.value();
  throw_system_error("cannot be examined", path);
}

}  // namespace muster::federated
