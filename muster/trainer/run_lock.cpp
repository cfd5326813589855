#include "muster/trainer/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::milliseconds kLookInterval{5};

}  // namespace

RunLock::RunLock(const std::filesystem::path& run, const Deadline& deadline) {
  const std::filesystem::path file = run / "job.toml";
  // A network file system locks only what may be written.
  descriptor_ = FileDescriptor(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!descriptor_.valid() && (errno == EACCES || errno == EROFS))
    descriptor_ = FileDescriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor_.valid()) throw_system_error("cannot be opened", file);
  while (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;
    if (deadline.passed())
      throw Error(
          ErrorKind::kMismatch, "another process is training this run", run.string(),
          fmt::format("Look at it with muster status {}, or start a run of its own without --resume.", run.string()));
    system_clock().sleep_for(kLookInterval);
  }
}

}  // namespace muster::trainer
