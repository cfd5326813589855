// The source numpy: arrays named x and y, or x_train, y_train, x_test and y_test, in an .npz file or a folder of .npy
// files, with x_validation and y_validation where there are some.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/zip.h"
#include "muster/data/array_dataset.h"
#include "muster/data/open_alike.h"
#include "muster/data/read_file.h"
#include "muster/data/source_parts.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kMostMeasured = 65536;  // samples that the scale is measured on

using Arrays = std::map<std::string, NpyArray>;

Arrays read_arrays(const std::filesystem::path& path) {
  const std::vector<std::string> wanted{"x",      "y",      "x_train",      "y_train",
                                        "x_test", "y_test", "x_validation", "y_validation"};
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
        const std::string where = fmt::format("{}: {}", path.string(), name);
        // A few bytes may become very many: all of them are unpacked when its own header says that it has so many.
        parse_npy_header(read_front(archive, member, kMostNpyHeader, path.string()), member.size, where);
        arrays.erase(name);
        arrays.emplace(name, NpyArray(read_member(archive, member, path.string()), where));
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

// The pair of another set: in a file of its own, or in this one if it is there.
std::optional<Pair> take_other(Arrays& arrays, const std::string& suffix, const std::filesystem::path& own, bool here,
                               const SourceOptions& options) {
  if (own.empty()) return here ? std::optional(take_pair(arrays, suffix, options, options.path)) : std::nullopt;
  Arrays others = read_arrays(own);
  return take_pair(others, others.contains("x" + suffix) ? suffix : "", options, own);
}

std::int64_t classes_of(const ArrayTargets& targets) {
  return targets.labels.empty() ? 0 : 1 + *std::max_element(targets.labels.begin(), targets.labels.end());
}

}  // namespace

Alike alike_arrays(const DataForm& form, const std::filesystem::path& path, bool train) {
  Arrays arrays;
  if (path.extension() == ".npy") {
    arrays.emplace("x", NpyArray(path));
  } else {
    arrays = read_arrays(path);
  }
  const std::string own = train ? "_train" : "_test";
  const std::string suffix = arrays.contains("x" + own) ? own : "";
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

ArrayTargetLook look_at_targets(const std::filesystem::path& path) {
  constexpr std::size_t kMostClasses = 20;
  Arrays arrays = read_arrays(path);
  const NpyArray array = take(arrays, arrays.contains("y_train") ? "y_train" : "y", path);
  const NpyHeader& header = array.header();
  const ArrayTargets targets = read_targets(array, true);
  ArrayTargetLook look{.width = targets.width};
  const bool whole = std::all_of(targets.values.begin(), targets.values.end(),
                                 [](float value) { return value >= 0 && value == std::floor(value); });
  const std::set<float> different(targets.values.begin(), targets.values.end());
  look.classes = targets.width == 1 && whole && (header.is_integer() || different.size() <= kMostClasses);
  return look;
}

Data open_arrays(const SourceOptions& options) {
  const std::filesystem::path path = required_path(options, "an .npz file or a folder of .npy files");
  Arrays arrays = read_arrays(path);
  const bool both = arrays.contains("x_train") || arrays.contains("x_test");
  Pair train = take_pair(arrays, both ? "_train" : "", options, path);
  std::optional<Pair> test = take_other(arrays, "_test", options.test_path, both, options);
  std::optional<Pair> validation =
      take_other(arrays, "_validation", options.validation_path, arrays.contains("x_validation"), options);
  std::int64_t classes = classes_of(train.targets);
  for (const auto* other : {&test, &validation})
    if (*other) classes = std::max(classes, classes_of((*other)->targets));
  if (options.table.regression) {
    for (const auto& [other, name] : {std::pair(&test, "test"), std::pair(&validation, "validation")}) {
      if (*other && (*other)->targets.width != train.targets.width) {
        throw Error(ErrorKind::kMismatch,
                    fmt::format("training targets have {} values, {} targets {}", train.targets.width, name,
                                (*other)->targets.width),
                    path.string());
      }
    }
    const TrainingIds ids(train.targets.samples(), !test, !validation && options.validation > 0, options);
    const std::vector<ValueScale> scales = train.targets.measure(ids.spread(ids.size()));
    train.targets.apply(scales);
    for (auto* other : {&test, &validation})
      if (*other) (*other)->targets.apply(scales);
  }
  Data data;
  auto dataset = std::make_shared<ArrayDataset>(std::move(train.features), std::move(train.targets), classes);
  const TrainingIds ids(dataset->size(), !test, !validation && options.validation > 0, options);
  data.normalization = options.normalization ? *options.normalization : dataset->measure(ids.spread(kMostMeasured));
  dataset->normalize(data.normalization);
  const auto other_set = [&](Pair& pair, std::string_view name) {
    auto set = std::make_shared<ArrayDataset>(std::move(pair.features), std::move(pair.targets), classes);
    check_same_samples(dataset->spec(), set->spec(), name, path);
    set->normalize(data.normalization);
    return set;
  };
  if (test) {
    data.train = dataset;
    data.test = other_set(*test, "test");
  } else {
    hold_out_test(data, dataset, options);
  }
  if (validation) data.validation = other_set(*validation, "validation");
  data.description =
      describe(data.train->size(), data.test->size(), data.train->spec(), fmt::format("from {}", path.string()));
  return data;
}

}  // namespace muster::data
