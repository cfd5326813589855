// Headers are read once: a file keeps its own for as long as it is there. What is written of a copy is written where it
// ends, so that the same piece may come twice, or from two hosts.
#include "muster/data/ledger_parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <regex>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/data/ledger_format.h"

namespace muster::data {
namespace {

constexpr std::size_t kRandomAt = 24;    // ledger_format.h
constexpr std::size_t kChecksumAt = 32;  // likewise

// Nothing: its header is not whole, or it is no file of a ledger.
std::optional<std::uint64_t> id_of(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::byte> header(kLedgerFileHeader);
  if (!file.valid() || ::pread(file.get(), header.data(), header.size(), 0) != static_cast<ssize_t>(header.size()))
    return std::nullopt;
  std::uint32_t checksum = 0;
  std::uint64_t id = 0;
  std::memcpy(&checksum, header.data() + kChecksumAt, sizeof checksum);
  std::memcpy(&id, header.data() + kRandomAt, sizeof id);
  if (checksum != ledger_checksum(0, std::span(header).first(kChecksumAt))) return std::nullopt;
  return id;
}

std::string copy_name(const LedgerPart& part) {
  return fmt::format("{}.{:016x}.ledger", std::filesystem::path(part.name).stem().string(), part.id);
}

}  // namespace

std::vector<LedgerPart> LedgerParts::list() {
  std::vector<LedgerPart> parts;
  std::error_code none;
  if (!std::filesystem::exists(folder_, none)) return parts;
  for (const std::filesystem::path& path : ledger_files(folder_)) {
    const std::string file = path.filename().string();
    auto known = known_.find(file);
    if (known == known_.end()) {
      const std::optional<std::uint64_t> id = id_of(path);
      if (!id) continue;
      LedgerPart part{*id, file};
      const std::string ending = fmt::format(".{:016x}.ledger", *id);
      const bool copy = file.ends_with(ending);
      if (copy) part.name = file.substr(0, file.size() - ending.size()) + ".ledger";
      known = known_.emplace(file, Known{*id, part.name, copy}).first;
    }
    const std::uint64_t bytes = std::filesystem::file_size(path, none);
    if (none) continue;
    LedgerPart part{known->second.id, known->second.name, bytes, known->second.copy};
    // Of a file and its copy the file counts.
    const auto twin =
        std::find_if(parts.begin(), parts.end(), [&](const LedgerPart& one) { return one.id == part.id; });
    if (twin == parts.end())
      parts.push_back(std::move(part));
    else if (twin->copy)
      *twin = std::move(part);
  }
  return parts;
}

std::filesystem::path LedgerParts::path_of(const LedgerPart& part) const {
  return folder_ / (part.copy ? copy_name(part) : part.name);
}

std::vector<std::uint8_t> LedgerParts::read(const LedgerPart& part, std::uint64_t from, std::uint64_t to) const {
  std::vector<std::uint8_t> bytes(to - from);
  const std::filesystem::path path = path_of(part);
  read_exactly(open_for_reading(path), from, std::as_writable_bytes(std::span(bytes)), path);
  return bytes;
}

void LedgerParts::append(const LedgerPart& part, std::uint64_t at, std::span<const std::uint8_t> bytes) {
  static const std::regex kName("worker-[0-9]{3,}-[0-9]{4,}\\.ledger");
  if (!std::regex_match(part.name, kName))
    throw Error(ErrorKind::kMismatch, "another host has a ledger's file of a name that none has", part.name);
  const auto own = known_.find(part.name);
  if (own != known_.end() && own->second.id == part.id && !own->second.copy) return;
  // Seen for the first time, perhaps: of hosts that see one folder.
  if (own == known_.end() && id_of(folder_ / part.name) == part.id) return;
  make_folder(folder_);
  const std::filesystem::path path = folder_ / copy_name(part);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) throw_system_error("cannot be created", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("cannot be looked at", path);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < at)
    throw Error(ErrorKind::kMismatch,
                fmt::format("has {} bytes, and {} of another host's file follow at {}", size, bytes.size(), at),
                path.string());
  std::uint64_t position = size;
  while (position < at + bytes.size()) {
    const auto rest = bytes.subspan(position - at);
    const ssize_t count = ::pwrite(file.get(), rest.data(), rest.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("cannot be written", path);
    position += static_cast<std::uint64_t>(count);
  }
}

}  // namespace muster::data
