// Hidden names are random; the lock on the folder says whether the process that writes lives.
// Renaming is the one moment at which a checkpoint becomes visible, and where there is an old one the kernel swaps the
// two.
#include "muster/model/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include <fmt/format.h>

#include "muster/base/draft_name.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"

namespace muster::model {
namespace {

// No hidden name of a writer has the number 0 (draft_name).
constexpr std::string_view kAsideEnd = ".0.tmp";

// Whether to try: false where a test wants a file system that cannot.
bool can_swap() {
  try {
    MUSTER_FAILPOINT("checkpoint.swap");
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

FileDescriptor open_folder(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Whether `path` is still the folder that `descriptor` has open.
bool is_same(const FileDescriptor& descriptor, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void write_all(const FileDescriptor& descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor.get(), bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_system_error("cannot be written", path);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) {
  return fmt::format("step-{:012}", step);
}

std::optional<std::uint64_t> step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::uint64_t step = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // One name a step: "step-1" is not ours.
  if (parsed.ec != std::errc{} || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::filesystem::path hidden_path(const std::filesystem::path& folder, std::uint64_t step) {
  return folder / draft_name(checkpoint_name(step));
}

bool is_hidden_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".tmp";
  if (!name.starts_with('.') || !name.ends_with(kSuffix)) return false;
  name = name.substr(1, name.size() - 1 - std::min(name.size() - 1, kSuffix.size()));
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && step_of(name.substr(0, dot)) && all_digits(name.substr(dot + 1));
}

std::filesystem::path aside_path(const std::filesystem::path& final_path) {
  return final_path.parent_path() / fmt::format(".{}{}", final_path.filename().string(), kAsideEnd);
}

void remove_if_abandoned(const std::filesystem::path& hidden) {
  const FileDescriptor descriptor = open_folder(hidden);
  if (!descriptor.valid() || ::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (!is_same(descriptor, hidden)) return;  // published or removed while we looked
  const std::string name = hidden.filename().string();
  if (name.ends_with(kAsideEnd)) {
    // Whoever put it aside died before the new one had its name, or else that one stands there.
    const std::filesystem::path final_path = hidden.parent_path() / name.substr(1, name.size() - 1 - kAsideEnd.size());
    if (::renameat2(AT_FDCWD, hidden.c_str(), AT_FDCWD, final_path.c_str(), RENAME_NOREPLACE) == 0 ||
        ((errno == EINVAL || errno == ENOSYS) && ::rename(hidden.c_str(), final_path.c_str()) == 0))
      return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(hidden, ignored);
}

void remove_draft_if_abandoned(const std::filesystem::path& draft) {
  // Opened for writing: over a network a lock that excludes others needs it.
  const FileDescriptor descriptor(::open(draft.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!descriptor.valid() || ::fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0 && is_same(descriptor, draft)) ::unlink(draft.c_str());
}

HiddenFolder::HiddenFolder(const std::filesystem::path& folder, std::uint64_t step, const PointHook& at) : at_(at) {
  at_("before create", "folder");
  // Between creation and lock somebody who cleans up may take the folder away: then once more, under another name.
  constexpr int kTries = 10;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    path_ = hidden_path(folder, step);
    if (::mkdir(path_.c_str(), 0755) != 0) throw_system_error("cannot be created", path_);
    lock_ = open_folder(path_);
    // A file system without locks is no obstacle to writing; it only keeps others from cleaning up.
    if (lock_.valid()) ::flock(lock_.get(), LOCK_EX | LOCK_NB);
    if (lock_.valid() && is_same(lock_, path_)) {
      at_("after create", "folder");
      return;
    }
  }
  throw Error(ErrorKind::kIo, "is taken away again and again while it is written", path_.string());
}

HiddenFolder::~HiddenFolder() {
  if (published_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void HiddenFolder::write_file(const std::string& name, const std::function<void(const Sink&)>& produce) {
  const std::filesystem::path path = path_ / name;
  const FileDescriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!descriptor.valid()) throw_system_error("cannot be created", path);
  produce([&](std::span<const std::byte> bytes) {
    at_("before write", name);
    write_all(descriptor, bytes, path);
    at_("after write", name);
  });
  at_("before fsync", name);
  if (::fsync(descriptor.get()) != 0) throw_system_error("cannot be made durable", path);
  at_("after fsync", name);
}

void HiddenFolder::publish(const std::filesystem::path& final_path) {
  at_("before fsync", "folder");
  sync_folder(path_);
  at_("after fsync", "folder");

  at_("before rename", "folder");
  if (::rename(path_.c_str(), final_path.c_str()) == 0) {
    published_ = true;
  } else if (errno == EEXIST || errno == ENOTEMPTY) {
    replace(final_path);
  } else {
    throw_system_error("cannot be renamed into place", final_path);
  }
  at_("after rename", "folder");

  const std::filesystem::path parent = final_path.parent_path();
  at_("before fsync", "parent");
  sync_folder(parent);
  at_("after fsync", "parent");
}

// One of this step is there already.
void HiddenFolder::replace(const std::filesystem::path& final_path) {
  // Swapped by the kernel in one step; the destructor removes what then stands under the hidden name.
  if (can_swap()) {
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS) throw_system_error("cannot be replaced", final_path);
  }
  // Network file systems cannot swap: the old one goes out of the way first. If this process dies in between, the next
  // that looks puts it back; the lock keeps others from doing so before.
  const std::filesystem::path aside = aside_path(final_path);
  const FileDescriptor old = open_folder(final_path);
  if (old.valid()) ::flock(old.get(), LOCK_EX | LOCK_NB);
  std::error_code ignored;
  std::filesystem::remove_all(aside, ignored);
  if (::rename(final_path.c_str(), aside.c_str()) != 0) throw_system_error("cannot be replaced", final_path);
  at_("between renames", "folder");
  if (::rename(path_.c_str(), final_path.c_str()) != 0) {
    const int reason = errno;
    ::rename(aside.c_str(), final_path.c_str());
    errno = reason;
    throw_system_error("cannot be renamed into place", final_path);
  }
  published_ = true;
  std::filesystem::remove_all(aside, ignored);
}

}  // namespace muster::model
