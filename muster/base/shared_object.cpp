// A library is never closed: the code and destructors of its parts live in it. Its hash is compared before it is
// loaded, because loading runs code of it.
#include "muster/base/shared_object.h"

#include <dlfcn.h>

#include <cstdint>

#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/version.h"

namespace muster {
namespace {

constexpr std::uint64_t kMostLibraryBytes = 1'000'000'000;
constexpr const char* kRebuild = "Build it again with this version's headers (docs/models.md).";

// dlerror() names the file and the reason; it may be null when nothing is known.
std::string loader_reason() {
  const char* const reason = ::dlerror();
  return reason == nullptr ? "for no given reason" : reason;
}

}  // namespace

std::string library_hash(const std::filesystem::path& path) {
  const std::string bytes = read_text(path, kMostLibraryBytes);
  return sha256(std::as_bytes(std::span(bytes)));
}

std::vector<std::string> describe(const PartHelp& part) {
  std::vector<std::string> lines{
      fmt::format("[{}] of {} ({}){}", part.section, part.name, part.help, part.keys.empty() ? ": it has none" : ":")};
  for (const OwnKey& key : part.keys)
    lines.push_back("  " + describe(key));
  return lines;
}

const void* describe_library(const PartOfLibrary& part, const char* symbol, const char* parts, const char* macro) {
  const std::filesystem::path path = std::filesystem::absolute(part.library);
  if (!std::filesystem::exists(path)) throw Error(ErrorKind::kNotFound, "there is no such library", path.string());
  if (!part.sha256.empty() && library_hash(path) != part.sha256) {
    throw Error(ErrorKind::kMismatch, "the library is not the file that the job was started with", path.string(),
                "Put the old file back, or start a new run.");
  }
  // Local: two libraries may have classes of one name.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("cannot load the library: {}", loader_reason()), path.string(),
                "It has to be a shared object that links all it needs, built for this machine.");
  }
  using Describe = const void* (*)();
  const auto describe = reinterpret_cast<Describe>(::dlsym(handle, symbol));
  const void* const library = describe == nullptr ? nullptr : describe();
  if (library == nullptr) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("the library has no {}", parts), path.string(),
                fmt::format("End one of its source files with a line {}.", macro));
  }
  return library;
}

Error built_for_another_muster(const std::filesystem::path& path) {
  return {ErrorKind::kMismatch,
          fmt::format("the library was built with the headers of another Muster; this is {}", version()), path.string(),
          kRebuild};
}

Error built_for_another_torch(const std::filesystem::path& path, const char* its, const char* ours) {
  return {ErrorKind::kMismatch,
          fmt::format("the library was built for LibTorch {}, and this program runs {}", excerpt(its, 40), ours),
          path.string(), kRebuild};
}

}  // namespace muster
