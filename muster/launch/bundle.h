// A bundle: this program with the libraries that it has loaded, in a folder that runs wherever it lies, on a Debian
// with nothing installed that is as new as this one or newer.
//
//   bin/muster       looks for libraries in ../lib first, and so do these
//   lib/             every library but those of the C library itself, which the other machine has, and whose loader
//                    would not take others
//   bundle.json      version, what it was made on, the oldest C library that will do
//   SHA256SUMS       of all files, for `sha256sum --check`
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace muster::launch {

// Whether a library is a part of the C library (glibc), by the name it is loaded by. Pure.
bool is_of_c_library(const std::string& name);

// The libraries that this process has loaded, by the names that they are looked for, in order; the C library's are not
// among them.
struct LoadedLibrary {
  std::string name;
  std::filesystem::path file;
};
std::vector<LoadedLibrary> loaded_libraries();

// In a bundle: the checksums of its files.
constexpr const char* kBundleSums = "SHA256SUMS";
// Of a file's bytes, as sha256sum has it. Throws kNotFound, kIo.
std::string file_sum(const std::filesystem::path& path);

struct MadeBundle {
  std::size_t libraries = 0;
  std::uint64_t bytes = 0;  // of all files
};

// Makes the folder; it must not be there, or be empty. Throws kInvalidInput (there is something), kResource, kIo,
// kUnsupported (the program cannot be moved).
MadeBundle make_bundle(const std::filesystem::path& program, const std::filesystem::path& folder);
// The same as an archive, in which everything is below muster/.
MadeBundle make_bundle_archive(const std::filesystem::path& program, const std::filesystem::path& archive);

}  // namespace muster::launch
