// What the loader has loaded is what a bundle needs: nothing is guessed from names. A library's own search path names
// places of this machine, and would keep the program's from counting: it is dropped in the copy.
#include "muster/launch/bundle.h"

#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/version.h"
#include "muster/launch/elf_search_path.h"
#include "muster/launch/tar_archive.h"

namespace muster::launch {
namespace {

constexpr std::array<std::string_view, 15> kOfCLibrary{
    "ld-linux",           "libc.so",         "libm.so",       "libmvec.so",  "libpthread.so", "libdl.so",
    "librt.so",           "libresolv.so",    "libutil.so",    "libnsl.so.1", "libnss_",       "libanl.so",
    "libBrokenLocale.so", "libthread_db.so", "libcrypt_glibc"};

// A file of the bundle, as it is named there.
struct Part {
  std::string name;
  bool executable = false;
};

void copy_part(const std::filesystem::path& from, const std::filesystem::path& to, mode_t mode) {
  std::error_code code;
  std::filesystem::copy_file(from, to, code);
  if (code)
    throw Error(code == std::errc::no_space_on_device ? ErrorKind::kResource : ErrorKind::kIo,
                fmt::format("cannot be copied to {}: {}", to.string(), code.message()), from.string());
  if (::chmod(to.c_str(), mode) != 0) throw_system_error("cannot be made readable", to);
}

}  // namespace

std::string file_sum(const std::filesystem::path& path) {
  const OpenFile file = open_for_reading(path);
  Sha256 sum;
  std::vector<std::byte> piece(1 << 20);
  for (std::uint64_t at = 0; at < file.size; at += piece.size()) {
    const std::size_t size = std::min<std::uint64_t>(piece.size(), file.size - at);
    read_exactly(file, at, std::span(piece.data(), size), path);
    sum.update(std::span(piece.data(), size));
  }
  return sum.finish();
}

namespace {

std::vector<Part> fill(const std::filesystem::path& program, const std::filesystem::path& folder) {
  make_folder(folder / "bin");
  make_folder(folder / "lib");
  std::vector<Part> parts{{"bin/muster", true}};
  copy_part(program, folder / "bin/muster", 0755);
  set_search_path(folder / "bin/muster", "$ORIGIN/../lib");
  for (const LoadedLibrary& library : loaded_libraries()) {
    const std::string name = "lib/" + library.name;
    copy_part(library.file, folder / name, 0644);
    drop_search_path(folder / name);
    parts.push_back({name});
  }
  const Json facts{{"muster", version()},
                   {"c_library", fmt::format("glibc {} or newer", ::gnu_get_libc_version())},
                   {"libraries", parts.size() - 1}};
  write_atomically(folder / "bundle.json", facts.dump(2) + "\n");
  parts.push_back({"bundle.json"});
  std::string sums;
  for (const Part& part : parts)
    sums += fmt::format("{}  {}\n", file_sum(folder / part.name), part.name);
  write_atomically(folder / kBundleSums, sums);
  parts.push_back({kBundleSums});
  return parts;
}

MadeBundle figures_of(const std::vector<Part>& parts, const std::filesystem::path& folder) {
  MadeBundle made;
  for (const Part& part : parts) {
    made.bytes += std::filesystem::file_size(folder / part.name);
    made.libraries += part.name.starts_with("lib/");
  }
  return made;
}

}  // namespace

bool is_of_c_library(const std::string& name) {
  return std::any_of(kOfCLibrary.begin(), kOfCLibrary.end(),
                     [&](std::string_view part) { return name.starts_with(part); });
}

std::vector<LoadedLibrary> loaded_libraries() {
  std::map<std::string, std::filesystem::path> found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const std::filesystem::path path = info->dlpi_name;
        // The program itself has no name, and the kernel's part of it no file.
        if (path.has_parent_path() && !is_of_c_library(path.filename().string()))
          static_cast<std::map<std::string, std::filesystem::path>*>(data)->emplace(path.filename().string(), path);
        return 0;
      },
      &found);
  std::vector<LoadedLibrary> libraries;
  for (auto& [name, file] : found)
    libraries.push_back({name, std::move(file)});
  return libraries;
}

MadeBundle make_bundle(const std::filesystem::path& program, const std::filesystem::path& folder) {
  std::error_code code;
  if (std::filesystem::exists(folder, code) && !std::filesystem::is_empty(folder, code))
    throw Error(ErrorKind::kInvalidInput, "is there already", folder.string(), "Name a folder that is not there.");
  return figures_of(fill(program, folder), folder);
}

MadeBundle make_bundle_archive(const std::filesystem::path& program, const std::filesystem::path& archive) {
  const TemporaryFolder folder("muster-bundle-");
  const std::vector<Part> parts = fill(program, folder.path());
  TarArchive tar(archive);
  for (const Part& part : parts)
    tar.add(folder.path() / part.name, "muster/" + part.name, part.executable);
  tar.finish();
  return figures_of(parts, folder.path());
}

}  // namespace muster::launch
