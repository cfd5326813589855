// A library is loaded once and never closed: the code and destructors of its models live in it. Its format and LibTorch
// version are compared before anything of it is called but the function that tells them.
#include "muster/model/user_library.h"

#include <dlfcn.h>

#include <exception>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/model/user_models.h"

namespace muster::model {
namespace {

constexpr const char* kRebuild = "Build it again with this version's headers (docs/models.md).";

// dlerror() names the file and the reason; it may be null when nothing is known.
std::string loader_reason() {
  const char* const reason = ::dlerror();
  return reason == nullptr ? "for no given reason" : reason;
}

const UserModels& load(const std::filesystem::path& path) {
  // Local: two libraries may have classes of one name. Never closed: the model's code and its destructors are in it.
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("cannot load the library: {}", loader_reason()), path.string(),
                "It has to be a shared object that links all it needs, built for this machine.");
  }
  using Describe = const UserModels* (*)();
  const auto describe = reinterpret_cast<Describe>(::dlsym(handle, kUserModelSymbol));
  const UserModels* const library = describe == nullptr ? nullptr : describe();
  if (library == nullptr) {
    throw Error(ErrorKind::kInvalidInput, "the library has no models", path.string(),
                "End one of its source files with a line MUSTER_MODELS({\"name\", \"help\", make}).");
  }
  if (library->format != kUserModelFormat || library->options_bytes != sizeof(ModelOptions)) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("the library was built with the headers of another Muster; this is {}", version()),
                path.string(), kRebuild);
  }
  if (std::string_view(library->torch) != TORCH_VERSION) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("the library was built for LibTorch {}, and this program runs {}",
                            excerpt(library->torch, 40), TORCH_VERSION),
                path.string(), kRebuild);
  }
  return *library;
}

const UserModel& find(const UserModels& library, const ModelOptions& options) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < library.count; ++i) {
    if (options.name == library.models[i].name) return library.models[i];
    names.emplace_back(library.models[i].name);
  }
  throw Error(ErrorKind::kNotFound,
              fmt::format("the library has no model \"{}\"{}; it has {}", options.name,
                          did_you_mean(options.name, names), join_words(names)),
              options.library);
}

}  // namespace

std::shared_ptr<Net> make_user_model(const ModelOptions& options) {
  const std::filesystem::path path = std::filesystem::absolute(options.library);
  if (!std::filesystem::exists(path)) throw Error(ErrorKind::kNotFound, "there is no such library", path.string());
  if (!options.library_sha256.empty() && library_hash(path) != options.library_sha256) {
    throw Error(ErrorKind::kMismatch, "the library is not the file that the job was started with", path.string(),
                "Put the old file back, or start a new run.");
  }
  const UserModel& model = find(load(path), options);
  std::shared_ptr<Net> net;
  try {
    net = model.make(options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("model {}: {}", options.name, error.what()), path.string());
  }
  if (!net) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("model {}: the library made none", options.name), path.string());
  }
  return net;
}

}  // namespace muster::model
