// The source packed: a folder of shards with the sets train and test, and validation if there is one. Samples are as
// they were packed, so a normalisation of the job's own is refused. Shards that are not here may be had from other
// hosts.
#include <functional>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/fetched_dataset.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/source_parts.h"

namespace muster::data {

namespace {

constexpr std::chrono::minutes kFindTime{5};  // for a host that has the data to come

// Where a set is to be had, by its name; nothing: there is none of that name.
using MakeSet = std::function<std::shared_ptr<const Dataset>(const std::string& set)>;

Data assemble(const MakeSet& make, const std::string& where) {
  Data data;
  data.train = make("train");
  data.test = make("test");
  if (data.test->spec().shape != data.train->spec().shape || data.test->spec().classes != data.train->spec().classes ||
      data.test->spec().target != data.train->spec().target) {
    throw Error(ErrorKind::kMismatch, "the sets train and test do not fit together", where);
  }
  data.validation = make("validation");
  return data;
}

Data open_here(const std::filesystem::path& folder) {
  const auto make = [&](const std::string& set) -> std::shared_ptr<const PackedDataset> {
    if (set == "validation" && !PackedDataset::exists(folder, set)) return nullptr;
    return std::make_shared<PackedDataset>(folder, set);
  };
  Data data = assemble(make, folder.string());
  const auto& train = static_cast<const PackedDataset&>(*data.train);
  data.description =
      describe(train.size(), data.test->size(), train.spec(),
               fmt::format("{} in {} shards of {}", human_bytes(train.bytes()), train.shards(), folder.string()));
  return data;
}

Data open_fetched(const std::shared_ptr<PieceDoor>& door) {
  const DepotView view = door->open(Deadline::after(kFindTime));
  const auto make = [&](const std::string& set) -> std::shared_ptr<const FetchedDataset> {
    if (set == "validation" && !FetchedDataset::exists(view, set)) return nullptr;
    return std::make_shared<FetchedDataset>(door, view, set);
  };
  Data data = assemble(make, "on the hosts that have it");
  const auto& train = static_cast<const FetchedDataset&>(*data.train);
  data.description =
      describe(train.size(), data.test->size(), train.spec(),
               fmt::format("{} in {} shards of other hosts", human_bytes(train.bytes()), train.shards()));
  return data;
}

}  // namespace

Data open_packed(const SourceOptions& options) {
  const std::filesystem::path folder = required_path(options, "the folder of the shards");
  if (options.normalization) {
    throw Error(ErrorKind::kInvalidInput, "packed samples are normalised already", folder.string(),
                "Leave data.mean and data.std out.");
  }
  return options.remote && !PackedDataset::exists(folder, "train") ? open_fetched(options.remote) : open_here(folder);
}

}  // namespace muster::data
