// Where a program or a library looks for the libraries that it needs: its RPATH or RUNPATH, changed in place in a copy
// of the file. What patchelf does, for the two changes that a bundle wants, which need no other layout of the file.
#pragma once

#include <filesystem>
#include <string_view>

namespace muster::launch {

// The file's libraries, and theirs, are looked for there before anywhere else (DT_RPATH). It has to have a search path
// already, as long as this one at least. Throws kUnsupported if it has not, kDamaged (no ELF file of 64 bits, or one
// that points outside of itself), kIo.
void set_search_path(const std::filesystem::path& file, std::string_view path);
// The file has none of its own: those of whoever loads it count. Throws likewise, but for the first.
void drop_search_path(const std::filesystem::path& file);

}  // namespace muster::launch
