// Nothing is waited for: a process that was killed has no lock any more, and one that lives does not end because
// another would like to be the same client.
#include "muster/federated/client_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::federated {

ClientLock::ClientLock(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = std::filesystem::absolute(folder) / (name + ".lock");
  make_folder(path.parent_path());
  descriptor_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!descriptor_.valid()) throw_system_error("cannot open", path);
  while (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;
    throw Error(ErrorKind::kMismatch, fmt::format("another process is the client {}", name), path.string(),
                "End that one first; or give each client a --name, or a --state, of its own.");
  }
}

}  // namespace muster::federated
