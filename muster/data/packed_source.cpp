// The source packed: a folder of shards with the sets train and test, and validation if there is one.
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/source_parts.h"

namespace muster::data {

Data open_packed(const SourceOptions& options) {
  const std::filesystem::path folder = required_path(options, "the folder of the shards");
  if (options.normalization) {
    throw Error(ErrorKind::kInvalidInput, "packed samples are normalised already", folder.string(),
                "Leave data.mean and data.std out.");
  }
  Data data;
  const auto train = std::make_shared<PackedDataset>(folder, "train");
  data.train = train;
  const auto test = std::make_shared<PackedDataset>(folder, "test");
  data.test = test;
  if (test->spec().shape != train->spec().shape || test->spec().classes != train->spec().classes ||
      test->spec().target != train->spec().target) {
    throw Error(ErrorKind::kMismatch, "the sets train and test do not fit together", folder.string());
  }
  data.description =
      describe(data.train->size(), data.test->size(), data.train->spec(),
               fmt::format("{} in {} shards of {}", human_bytes(train->bytes()), train->shards(), folder.string()));
  return data;
}

}  // namespace muster::data
