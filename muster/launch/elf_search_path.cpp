// The dynamic section is a table of (tag, value); a search path is an entry whose value is an offset into the table of
// strings. DT_RPATH is used and not DT_RUNPATH because it counts for the libraries of libraries, too. An entry is
// dropped by a tag that no loader knows, of the range for such tags.
#include "muster/launch/elf_search_path.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::launch {
namespace {

constexpr Elf64_Sxword kDropped = DT_LOOS + 0x4d55;  // "MU"
constexpr std::uint64_t kMostTableBytes = 1 << 20;

// A file that is read and written at offsets; all of them are checked.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) : path_(path), file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    if (!file_.valid()) throw_system_error("cannot be opened", path);
    const off_t end = ::lseek(file_.get(), 0, SEEK_END);
    if (end < 0) throw_system_error("cannot be examined", path);
    size_ = static_cast<std::uint64_t>(end);
    header_ = read<Elf64_Ehdr>(0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_ident[EI_CLASS] != ELFCLASS64 ||
        header_.e_ident[EI_DATA] != ELFDATA2LSB || header_.e_phentsize != sizeof(Elf64_Phdr))
      throw damaged("is no ELF file of 64 bits");
    for (int i = 0; i < header_.e_phnum; ++i)
      segments_.push_back(read<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr)));
  }

  // The entries of the dynamic section that have one of the tags of search paths: offset in the file, and entry.
  struct Found {
    std::uint64_t place;
    Elf64_Dyn entry;
  };
  std::vector<Found> search_paths() {
    std::vector<Found> found;
    for_each_dynamic([&](std::uint64_t place, const Elf64_Dyn& entry) {
      if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) found.push_back({place, entry});
      if (entry.d_tag == DT_STRTAB) strings_ = file_offset(entry.d_un.d_ptr);
    });
    return found;
  }
  // Where the text of that entry lies.
  std::uint64_t text_of(const Elf64_Dyn& entry) const {
    if (!strings_) throw damaged("has no table of strings");
    return *strings_ + entry.d_un.d_val;
  }

  template <typename T>
  T read(std::uint64_t offset) const {
    T value;
    require(offset, sizeof value);
    if (::pread(file_.get(), &value, sizeof value, static_cast<off_t>(offset)) != static_cast<ssize_t>(sizeof value))
      throw_system_error("cannot be read", path_);
    return value;
  }
  void write(std::uint64_t offset, const void* bytes, std::size_t size) {
    require(offset, size);
    if (::pwrite(file_.get(), bytes, size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size))
      throw_system_error("cannot be written", path_);
  }
  Error damaged(const std::string& what) const { return Error(ErrorKind::kDamaged, what, path_.string()); }

 private:
  void require(std::uint64_t offset, std::uint64_t size) const {
    if (offset > size_ || size > size_ - offset) throw damaged("points outside of itself");
  }
  std::uint64_t file_offset(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_)
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    throw damaged("points outside of itself");
  }
  template <typename Visit>
  void for_each_dynamic(const Visit& visit) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC) continue;
      if (segment.p_filesz > kMostTableBytes) throw damaged("has a dynamic section that makes no sense");
      for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
        const auto entry = read<Elf64_Dyn>(segment.p_offset + at);
        if (entry.d_tag == DT_NULL) return;
        visit(segment.p_offset + at, entry);
      }
    }
  }

  const std::filesystem::path path_;
  const FileDescriptor file_;
  std::uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::optional<std::uint64_t> strings_;
};

}  // namespace

void set_search_path(const std::filesystem::path& file, std::string_view path) {
  ElfFile elf(file);
  const auto found = elf.search_paths();
  std::size_t room = 0;
  if (!found.empty())
    while (room < path.size() && elf.read<char>(elf.text_of(found.front().entry) + room) != '\0')
      ++room;
  if (found.empty() || room < path.size())
    throw Error(ErrorKind::kUnsupported, "has no search path for libraries that could be changed", file.string(),
                "Build Muster as musterw does.");
  const std::string text = std::string(path) + '\0';
  elf.write(elf.text_of(found.front().entry), text.data(), text.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    Elf64_Dyn entry = found[i].entry;
    entry.d_tag = i == 0 ? DT_RPATH : kDropped;
    elf.write(found[i].place, &entry, sizeof entry);
  }
}

void drop_search_path(const std::filesystem::path& file) {
  ElfFile elf(file);
  for (ElfFile::Found found : elf.search_paths()) {
    found.entry.d_tag = kDropped;
    elf.write(found.place, &found.entry, sizeof found.entry);
  }
}

}  // namespace muster::launch
