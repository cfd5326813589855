// Files that are read as the training data of a model was, to evaluate it on them or to let it predict.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/data_form.h"
#include "muster/data/sources.h"
#include "muster/data/tolerant.h"

namespace muster::data {

struct Alike {
  std::shared_ptr<const Dataset> samples;
  bool labelled = true;  // false: the files have no targets; those that the data set gives mean nothing
  std::function<std::string(std::uint64_t id)> name;  // what people call a sample: its file, file and line
  std::shared_ptr<BadSamples> bad_samples;
  std::vector<std::string> notes{};  // as Data::notes
  // `samples` where damaged ones are skipped: in their place stand others, and it says of which ids that is so.
  std::shared_ptr<const Tolerant> tolerant{};
};

struct AlikeOptions {
  bool train = false;   // true: to be trained on; sources that keep training and test data apart give the former
  bool targets = true;  // false: targets are not wanted, and those that a table has are not read
  std::shared_ptr<BadSamples> bad_samples = {};  // the account of bad samples; empty: one of its own, by the options
};

// `options` are those of the training data; all samples in `path` are read, by the form. What can be without targets: a
// table without the target's column, arrays x without y, pictures that do not lie in folders of classes, a file of IDX
// images. Throws as open_source; kMismatch for samples of another shape and for
// characters that the model does not know, kUnsupported for computed data.
Alike open_alike(const SourceOptions& options, const DataForm& form, const std::filesystem::path& path,
                 const AlikeOptions& wanted = {});

}  // namespace muster::data
