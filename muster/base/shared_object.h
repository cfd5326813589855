// Shared objects of users, from which a job takes models, data sources and tasks. Such a file is code: it is loaded
// where the job names it, once, and stays to the end of the process, since the code and destructors of its parts are
// in it.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/own_options.h"
#include "muster/base/text.h"

namespace muster {

// A part of a shared object as a job names it.
struct PartOfLibrary {
  std::string library = {};  // path; a relative one is relative to the current folder
  std::string sha256 = {};   // of the file it has to be; empty: any
  std::string name = {};
};

// What a library says of one of its parts, for people.
struct PartHelp {
  std::string name;
  std::string help;
  std::string section;  // of the job: "model.options"
  std::vector<OwnKey> keys;
};
// "[model.options] of highway (a highway network):", and a line for each key.
std::vector<std::string> describe(const PartHelp& part);

// The hash for PartOfLibrary::sha256. Throws kNotFound, kInvalidInput (a folder), kDamaged (over 1 GB), kIo.
std::string library_hash(const std::filesystem::path& path);

// What the object's function `symbol` gives; `parts` is what it should have ("models"), `macro` the line that it lacks
// if it has none. Throws kNotFound: there is no such file; kMismatch: its hash is another; kInvalidInput: it cannot be
// loaded (says the loader's reason) or has no such function.
const void* describe_library(const PartOfLibrary& part, const char* symbol, const char* parts, const char* macro);

// What a library says of itself does not fit this program.
Error built_for_another_muster(const std::filesystem::path& path);
Error built_for_another_torch(const std::filesystem::path& path, const char* its, const char* ours);

// The part of that name. Throws kNotFound that says which there are.
template <typename Entry>
const Entry& find_part(std::span<const Entry> entries, const PartOfLibrary& part, const char* kind) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (part.name == entry.name) return entry;
    names.emplace_back(entry.name);
  }
  throw Error(ErrorKind::kNotFound,
              fmt::format("the library has no {} \"{}\"{}; it has {}", kind, part.name, did_you_mean(part.name, names),
                          join_words(names)),
              part.library);
}

// What `make` gives. What it throws that is no Error becomes one of kInvalidInput about `what`; so does nothing at all.
template <typename Make>
auto make_part(const PartOfLibrary& part, const std::string& what, const Make& make) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorKind::kInvalidInput, fmt::format("{}: {}", what, why), part.library);
  };
  try {
    auto made = make();
    if (!made) throw refuse("the library made none");
    return made;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw refuse(error.what());
  }
}

}  // namespace muster
