// Files are written and read without the lock; names appear and vanish under it. So a file under its name is whole, as
// far as the disk is.
#include "muster/data/piece_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kDiskPage = 4096;  // what a file takes at least
constexpr std::uint64_t kPieceChecksumBytes = 4;
constexpr const char* kCacheLock = "lock";
constexpr const char* kUnfinished = "unfinished-";

std::uint64_t bytes_on_disk(std::uint64_t bytes) {
  return (bytes + kDiskPage - 1) / kDiskPage * kDiskPage;
}

std::optional<std::uint64_t> piece_number(const std::string& name) {
  std::uint64_t number = 0;
  const auto [rest, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (code != std::errc() || rest != name.data() + name.size()) return std::nullopt;
  return number;
}

// Private, and ours: another user's folder in its place could be read, or hold what it likes.
void make_cache_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw_system_error("cannot make", folder);
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) throw_system_error("cannot look at", folder);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid())
    throw Error(ErrorKind::kInvalidInput, "is not a folder of this user", folder.string(),
                "Remove it, or name another place in data.cache.");
  if ((found.st_mode & 0077) != 0 && ::chmod(folder.c_str(), 0700) != 0) throw_system_error("cannot protect", folder);
}

// Invalid: somebody has it.
FileDescriptor try_cache_lock(const fs::path& folder) {
  const fs::path file = folder / kCacheLock;
  FileDescriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) throw_system_error("cannot open", file);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) throw_system_error("cannot lock", file);
  return {};
}

bool is_cache_name(const std::string& name) {
  const std::size_t dash = name.find('-');
  return dash == 16 && name.find_first_not_of("0123456789abcdef") == dash && piece_number(name.substr(dash + 1));
}

void remove_others(const fs::path& above, const std::string& name) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(above, code)) {
    const std::string other = entry.path().filename().string();
    if (other == name || !is_cache_name(other) || !fs::exists(entry.path() / kCacheLock, code)) continue;
    try {
      if (const FileDescriptor lock = try_cache_lock(entry.path()); lock.valid()) fs::remove_all(entry.path(), code);
    } catch (const Error&) {
      // Of another user, or going at this moment: not ours to remove.
    }
  }
}

}  // namespace

fs::path piece_path(const fs::path& folder, const PieceId& piece) {
  return folder / std::to_string(piece.shard) / std::to_string(piece.piece);
}

PieceCache::PieceCache(const fs::path& above, const std::string& name, std::uint64_t most_bytes, PieceFilter keeps)
    : folder_(above / name), most_bytes_(most_bytes), keeps_(std::move(keeps)) {
  make_folder(above);
  remove_others(above, name);
  make_cache_folder(folder_);
  lock_ = try_cache_lock(folder_);
  if (!lock_.valid())
    throw Error(ErrorKind::kResource, "another agent on this machine uses this cache", folder_.string(),
                "Give each its own place: data.cache, or another current folder.");
  find_kept();
}

void PieceCache::find_kept() {
  std::vector<std::tuple<fs::file_time_type, PieceId, std::uint64_t>> found;
  std::error_code code;
  for (const auto& shard : fs::directory_iterator(folder_, code)) {
    const std::optional<std::uint64_t> number = piece_number(shard.path().filename().string());
    if (!number || !shard.is_directory(code)) continue;
    for (const auto& file : fs::directory_iterator(shard.path(), code)) {
      const std::optional<std::uint64_t> piece = piece_number(file.path().filename().string());
      if (piece && file.is_regular_file(code))
        found.emplace_back(file.last_write_time(code), PieceId{*number, *piece}, bytes_on_disk(file.file_size(code)));
      else
        fs::remove(file.path(), code);  // that was being written
    }
  }
  std::ranges::sort(found);
  const MutexLock lock(mutex_);
  for (const auto& [time, piece, bytes] : found)
    add(piece, bytes);
  make_room(0);
}

void PieceCache::add(const PieceId& piece, std::uint64_t bytes) {
  const bool stays = keeps_(piece);
  std::list<Kept>& list = stays ? staying_ : kept_;
  (stays ? staying_bytes_ : bytes_) += bytes;
  places_[piece] = list.insert(list.end(), {piece, bytes, stays});
}

void PieceCache::drop(Place place) {
  (place->stays ? staying_bytes_ : bytes_) -= place->bytes;
  places_.erase(place->piece);
  (place->stays ? staying_ : kept_).erase(place);
}

void PieceCache::keep(PieceFilter keeps) {
  const MutexLock lock(mutex_);
  keeps_ = std::move(keeps);
  std::vector<Kept> moved;
  for (const std::list<Kept>* list : {&staying_, &kept_})
    for (const Kept& kept : *list)
      if (keeps_(kept.piece) != kept.stays) moved.push_back(kept);
  for (const Kept& kept : moved) {
    drop(places_.at(kept.piece));
    add(kept.piece, kept.bytes);
  }
  make_room(0);
}

bool PieceCache::has(const PieceId& piece) const {
  const MutexLock lock(mutex_);
  return places_.contains(piece);
}

bool PieceCache::touch(const PieceId& piece) {
  const MutexLock lock(mutex_);
  const auto found = places_.find(piece);
  if (found == places_.end()) return false;
  if (!found->second->stays) kept_.splice(kept_.end(), kept_, found->second);
  return true;
}

std::optional<std::vector<std::byte>> PieceCache::get(const PieceId& piece, std::uint64_t bytes) {
  if (!touch(piece)) return std::nullopt;
  const fs::path path = piece_path(folder_, piece);
  try {
    const OpenFile file = open_for_reading(path);
    if (file.size == bytes + kPieceChecksumBytes) {
      std::vector<std::byte> data(bytes);
      std::uint32_t checksum = 0;
      read_exactly(file, 0, data, path);
      read_exactly(file, bytes, std::as_writable_bytes(std::span(&checksum, 1)), path);
      if (checksum == crc32c(data)) return data;
    }
  } catch (const Error&) {
    // Removed meanwhile, or it cannot be read: it is not there.
  }
  const MutexLock lock(mutex_);
  remove(piece);
  return std::nullopt;
}

bool PieceCache::put(const PieceId& piece, std::span<const std::byte> bytes) {
  const std::uint64_t needed = bytes_on_disk(bytes.size() + kPieceChecksumBytes);
  const fs::path path = piece_path(folder_, piece);
  fs::path unfinished;
  {
    const MutexLock lock(mutex_);
    if (!keeps_(piece)) {
      if (needed > most_bytes_) return false;
      make_room(needed);
    }
    unfinished = path.parent_path() / fmt::format("{}{}", kUnfinished, ++written_);
  }
  if (::mkdir(path.parent_path().c_str(), 0700) != 0 && errno != EEXIST) return false;
  const std::uint32_t checksum = crc32c(bytes);
  const auto write_all = [](int fd, std::span<const std::byte> rest) {
    while (!rest.empty()) {
      const ssize_t written = ::write(fd, rest.data(), rest.size());
      if (written <= 0) return false;
      rest = rest.subspan(static_cast<std::size_t>(written));
    }
    return true;
  };
  const FileDescriptor file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool whole =
      file.valid() && write_all(file.get(), bytes) && write_all(file.get(), std::as_bytes(std::span(&checksum, 1)));
  const MutexLock lock(mutex_);
  if (!whole || ::rename(unfinished.c_str(), path.c_str()) != 0) {
    ::unlink(unfinished.c_str());
    return false;
  }
  if (const auto there = places_.find(piece); there != places_.end()) drop(there->second);
  add(piece, needed);
  make_room(0);
  return true;
}

std::uint64_t PieceCache::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

std::uint64_t PieceCache::kept_bytes() const {
  const MutexLock lock(mutex_);
  return staying_bytes_;
}

void PieceCache::remove(const PieceId& piece) {
  const auto found = places_.find(piece);
  if (found == places_.end()) return;
  ::unlink(piece_path(folder_, piece).c_str());
  drop(found->second);
}

void PieceCache::make_room(std::uint64_t bytes) {
  while (!kept_.empty() && bytes_ + bytes > most_bytes_)
    remove(PieceId(kept_.front().piece));
}

}  // namespace muster::data
