// A library's format and LibTorch version are compared before anything of it is called but the function that tells
// them.
#include "muster/model/user_library.h"

#include <string_view>

#include <fmt/format.h>

#include "muster/base/shared_object.h"
#include "muster/model/user_models.h"

namespace muster::model {
namespace {

const UserModel& find(const PartOfLibrary& part) {
  const auto& library = *static_cast<const UserModels*>(
      describe_library(part, kUserModelSymbol, "models", "MUSTER_MODELS({\"name\", \"help\", make})"));
  if (library.format != kUserModelFormat || library.options_bytes != sizeof(ModelOptions))
    throw built_for_another_muster(part.library);
  if (std::string_view(library.torch) != TORCH_VERSION)
    throw built_for_another_torch(part.library, library.torch, TORCH_VERSION);
  return find_part(std::span(library.models, library.count), part, "model");
}

PartOfLibrary part_of(const ModelOptions& options) {
  return {options.library, options.library_sha256, options.name};
}

}  // namespace

PartHelp user_model_help(const ModelOptions& options) {
  const UserModel& model = find(part_of(options));
  return {options.name, model.help, "model.options", model.keys};
}

std::shared_ptr<Net> make_user_model(const ModelOptions& options) {
  const PartOfLibrary part = part_of(options);
  const UserModel& model = find(part);
  const std::string what = fmt::format("model {}", options.name);
  ModelOptions complete = options;
  complete.own = complete_options(model.keys, options.own, "model.options", what);
  return make_part(part, what, [&] { return model.make(complete); });
}

}  // namespace muster::model
