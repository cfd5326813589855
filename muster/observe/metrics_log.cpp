// Appends rows and keeps the file whole: what a crash or a full disk left of a row is cut off before the next one, so
// that every line break ends a row that can be read.
#include "muster/observe/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "muster/base/check.h"

namespace muster::observe {
namespace {

constexpr std::uint64_t kLongestRow = 1 << 20;

// The length of `file` up to its last line break.
std::uint64_t whole_rows(const OpenFile& file, const std::filesystem::path& path) {
  std::string piece;
  for (std::uint64_t end = file.size; end > 0; end -= piece.size()) {
    if (file.size - end > kLongestRow) throw Error(ErrorKind::kDamaged, "is not a file of rows", path.string());
    piece.resize(std::min<std::uint64_t>(end, 4096));
    read_exactly(file, end - piece.size(), std::as_writable_bytes(std::span(piece)), path);
    if (const std::size_t line_break = piece.rfind('\n'); line_break != std::string::npos)
      return end - piece.size() + line_break + 1;
  }
  return 0;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path, OnLoss on_loss)
    : path_(std::move(path)), on_loss_(std::move(on_loss)) {
  // Non-blocking, so that a pipe under the name is refused below and not waited for.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  descriptor_ = FileDescriptor(::open(path_.c_str(), flags, 0644));
  // A folder or a pipe goes on to open_for_reading, which says so.
  if (!descriptor_.valid() && errno != EISDIR && errno != ENXIO) throw_system_error("cannot be opened", path_);
  const OpenFile file = open_for_reading(path_);
  const std::uint64_t whole = whole_rows(file, path_);
  if (whole < file.size && ::ftruncate(descriptor_.get(), static_cast<off_t>(whole)) != 0)
    throw_system_error("cannot be cut to whole rows", path_);
}

void MetricsLog::write(const Json& row) {
  MUSTER_CHECK(row.is_object(), "a row of metrics is an object");
  // Names of a user's may not be UTF-8; a row with a strange letter is better than none.
  const std::string line = row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  ssize_t count = -1;
  do {
    count = ::write(descriptor_.get(), line.data(), line.size());
  } while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(line.size())) return;
  ++lost_;
  if (count > 0) {
    // The disk filled up within the row: what of it was written goes, so that the next row starts a line.
    const off_t end = ::lseek(descriptor_.get(), 0, SEEK_CUR);
    [[maybe_unused]] const bool cut = end >= count && ::ftruncate(descriptor_.get(), end - count) == 0;
    errno = ENOSPC;
  }
  if (lost_ > 1 || !on_loss_) return;
  try {
    throw_system_error("loses rows, training goes on", path_);
  } catch (const Error& error) {
    on_loss_(error);
  }
}

}  // namespace muster::observe
