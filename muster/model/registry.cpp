// Where a name becomes a net: a script file, a user's library, or a row of the zoo's table. The seed is set right
// before a model is built, so that its first weights depend on the job alone.
#include "muster/model/registry.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/text.h"
#include "muster/model/make_model.h"
#include "muster/model/script_net.h"
#include "muster/model/user_library.h"
#include "muster/model/zoo/makers.h"

namespace muster::model {
namespace {

ModelEntry entry_of(const zoo::Row& row, const std::string& name) {
  ModelEntry entry{name, row.help, row.typical, row.options};
  entry.typical.name = name;
  return entry;
}

const zoo::Row& row_of(const std::string& name) {
  if (const zoo::Row* const row = zoo::find_row(name)) return *row;
  std::vector<std::string> names;
  for (const zoo::Row& row : zoo::rows())
    names.emplace_back(row.name);
  throw Error(ErrorKind::kInvalidInput, fmt::format("there is no model \"{}\"{}; available: {}", name,
                                                    did_you_mean(name, names), join_words(names)));
}

}  // namespace

std::vector<ModelEntry> models() {
  std::vector<ModelEntry> entries;
  for (const zoo::Row& row : zoo::rows())
    entries.push_back(entry_of(row, row.name));
  return entries;
}

ModelEntry find_model(const std::string& name) {
  return entry_of(row_of(name), name);
}

std::shared_ptr<Net> make_model(const ModelOptions& options, std::uint64_t seed) {
  if (!options.script.empty()) {
    zoo::refuse_other_options(options, {});
    const std::shared_ptr<Net> net = load_script(options.script);
    require_fit(*net, options);
    return net;
  }
  const zoo::Row* const row = options.library.empty() ? &row_of(options.name) : nullptr;
  if (row != nullptr) zoo::refuse_other_options(options, row->options);
  torch::manual_seed(derive_seed({.seed = seed, .purpose = Purpose::kModelInit}));
  if (row != nullptr) return row->make(options);
  const std::shared_ptr<Net> net = make_user_model(options);
  require_fit(*net, options);
  return net;
}

}  // namespace muster::model
