// A list of pairs [CLIENT, NUMBER], written whole: it changes when a client enrols, and seldom again. Who is not in it
// trains the whole model.
#include "muster/federated/chosen_submodels.h"

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/federated/is_there.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostSubmodelBytes = 64 << 20;

}  // namespace

ChosenSubmodels read_chosen_submodels(const std::filesystem::path& path, std::size_t most) {
  ChosenSubmodels chosen;
  if (!is_there(path)) return chosen;
  for (const Json& pair : parse_json(read_text(path, kMostSubmodelBytes), path.string())) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() || !pair[1].is_number_unsigned() ||
        pair[1].get<std::uint64_t>() > most)
      throw Error(ErrorKind::kDamaged, "is no list of clients and their models", path.string(), "Remove it.");
    chosen[pair[0].get<std::uint64_t>()] = pair[1].get<std::uint64_t>();
  }
  return chosen;
}

void write_chosen_submodels(const std::filesystem::path& path, const ChosenSubmodels& chosen) {
  Json pairs = Json::array();
  for (const auto& [client, number] : chosen)
    pairs.push_back({client, number});
  write_atomically(path, pairs.dump());
}

}  // namespace muster::federated
