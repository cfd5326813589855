// The source numpy: arrays named x and y, or x_train, y_train, x_test and y_test, in an .npz file or a folder of .npy
// files.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/array_dataset.h"
#include "muster/data/open_alike.h"
#include "muster/data/read_file.h"
#include "muster/data/source_parts.h"
#include "muster/data/zip.h"

namespace muster::data {
namespace {

using Arrays = std::map<std::string, NpyArray>;

Arrays read_arrays(const std::filesystem::path& path) {
  const std::vector<std::string> wanted{"x", "y", "x_train", "y_train", "x_test", "y_test"};
  Arrays arrays;
  if (std::filesystem::is_directory(path)) {
    for (const std::string& name : wanted) {
      const std::filesystem::path file = path / (name + ".npy");
      if (std::filesystem::exists(file)) arrays.emplace(name, NpyArray(file));
    }
  } else {
    const std::vector<std::byte> archive = read_file(open_for_reading(path), path);
    for (const ZipMember& member : zip_members(archive, path.string())) {
      for (const std::string& name : wanted) {
        if (member.name != name + ".npy") continue;
        arrays.erase(name);
        arrays.emplace(
            name, NpyArray(read_member(archive, member, path.string()), fmt::format("{}: {}", path.string(), name)));
      }
    }
  }
  return arrays;
}

NpyArray take(Arrays& arrays, const std::string& name, const std::filesystem::path& path) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) {
    throw Error(
        ErrorKind::kNotFound, fmt::format("has no array {}", name), path.string(),
        "Give x and y, or x_train, y_train, x_test and y_test: in an .npz file (np.savez), or as .npy files in a "
        "folder.");
  }
  NpyArray array = std::move(found->second);
  arrays.erase(found);
  return array;
}

struct Pair {
  NpyArray features;
  ArrayTargets targets;
};

Pair take_pair(Arrays& arrays, const std::string& suffix, const SourceOptions& options,
               const std::filesystem::path& path) {
  NpyArray features = take(arrays, "x" + suffix, path);
  return {std::move(features), read_targets(take(arrays, "y" + suffix, path), options.table.regression)};
}

std::int64_t classes_of(const ArrayTargets& targets) {
  return targets.labels.empty() ? 0 : 1 + *std::max_element(targets.labels.begin(), targets.labels.end());
}

}  // namespace

Alike alike_arrays(const DataForm& form, const std::filesystem::path& path) {
  Arrays arrays;
  if (path.extension() == ".npy") {
    arrays.emplace("x", NpyArray(path));
  } else {
    arrays = read_arrays(path);
  }
  const std::string suffix = arrays.contains("x_test") ? "_test" : "";
  const bool regression = form.spec.target == TargetKind::kValues;
  Alike alike;
  alike.labelled = arrays.contains("y" + suffix);
  NpyArray features = take(arrays, "x" + suffix, path);
  ArrayTargets targets;
  if (alike.labelled) {
    targets = read_targets(take(arrays, "y" + suffix, path), regression);
  } else {
    const auto samples = features.header().shape.empty() ? 0 : static_cast<std::size_t>(features.header().shape[0]);
    targets.width = regression ? static_cast<std::int64_t>(form.spec.target_elements()) : 1;
    targets.values.assign(regression ? samples * form.spec.target_elements() : 0, 0.0F);
    targets.labels.assign(regression ? 0 : samples, 0);
  }
  if (regression && static_cast<std::size_t>(targets.width) == form.spec.target_scale.size())
    targets.apply(form.spec.target_scale);
  auto dataset = std::make_shared<ArrayDataset>(std::move(features), std::move(targets), form.spec.classes);
  dataset->normalize(form.normalization);
  alike.samples = std::move(dataset);
  return alike;
}

Data open_arrays(const SourceOptions& options) {
  const std::filesystem::path path = required_path(options, "an .npz file or a folder of .npy files");
  Arrays arrays = read_arrays(path);
  const bool both = arrays.contains("x_train") || arrays.contains("x_test");
  Pair train = take_pair(arrays, both ? "_train" : "", options, path);
  std::optional<Pair> test;
  if (!options.test_path.empty()) {
    Arrays others = read_arrays(options.test_path);
    test = take_pair(others, others.contains("x_test") ? "_test" : "", options, options.test_path);
  } else if (both) {
    test = take_pair(arrays, "_test", options, path);
  }
  if (options.table.regression) {
    const std::vector<ValueScale> scales = train.targets.measure();
    if (test && test->targets.width != train.targets.width) {
      throw Error(
          ErrorKind::kMismatch,
          fmt::format("training targets have {} values, test targets {}", train.targets.width, test->targets.width),
          path.string());
    }
    train.targets.apply(scales);
    if (test) test->targets.apply(scales);
  }
  const std::int64_t classes = std::max<std::int64_t>(classes_of(train.targets), test ? classes_of(test->targets) : 0);
  Data data;
  auto dataset = std::make_shared<ArrayDataset>(std::move(train.features), std::move(train.targets), classes);
  data.normalization = options.normalization ? *options.normalization : dataset->measure();
  dataset->normalize(data.normalization);
  if (test) {
    auto second = std::make_shared<ArrayDataset>(std::move(test->features), std::move(test->targets), classes);
    if (second->spec().shape != dataset->spec().shape || second->spec().target_shape != dataset->spec().target_shape) {
      throw Error(ErrorKind::kMismatch,
                  fmt::format("training samples are {}, test samples are {}", describe(dataset->spec()),
                              describe(second->spec())),
                  path.string());
    }
    second->normalize(data.normalization);
    data.train = dataset;
    data.test = second;
  } else {
    hold_out_test(data, dataset, options);
  }
  data.description =
      describe(data.train->size(), data.test->size(), data.train->spec(), fmt::format("from {}", path.string()));
  return data;
}

}  // namespace muster::data
