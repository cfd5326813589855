// By kind of form: tables, images, IDX, packed shards. Files without targets are fine for predictions; the places of
// targets are then filled with values that mean nothing and nobody reads.
#include "muster/data/open_alike.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/array_dataset.h"
#include "muster/data/cifar10.h"
#include "muster/data/csv_reader.h"
#include "muster/data/idx.h"
#include "muster/data/image_dataset.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/picture_parts.h"
#include "muster/data/source_parts.h"
#include "muster/data/table_dataset.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

// Whether the table in the file has all columns of the targets.
bool has_targets(const fs::path& path, const TableOptions& options, const Table& like) {
  CsvReader reader = open_csv(path, options);
  std::vector<std::string_view> fields;
  if (!reader.next(fields)) throw Error(ErrorKind::kDamaged, "is empty", path.string());
  if (!options.header) return fields.size() + like.targets.size() != like.columns.size();
  for (std::string_view& field : fields)
    field = trimmed(field);
  return std::all_of(like.targets.begin(), like.targets.end(), [&](std::size_t target) {
    return std::find(fields.begin(), fields.end(), trimmed(like.columns[target].name)) != fields.end();
  });
}

// The table without the columns of its targets, as files without them have it.
Table without_targets(const Table& table) {
  Table result;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (!table.is_target(c)) result.columns.push_back(table.columns[c]);
  }
  return result;
}

Alike alike_table(const SourceOptions& options, const DataForm& form, const fs::path& path,
                  const AlikeOptions& wanted) {
  Alike alike;
  const bool there = has_targets(path, options.table, form.columns);
  alike.labelled = there && wanted.targets;
  Table like = form.columns;
  if (!there) {
    like = without_targets(like);
  } else if (!wanted.targets) {
    for (const std::size_t target : like.targets)
      like.columns[target].kind = ColumnKind::kIgnored;
    like.targets.clear();
  }
  Table table = read_table(path, options.table, *wanted.bad_samples, &like);
  alike.notes = notes_on(table);
  if (!alike.labelled) {
    // Targets that mean nothing, in the places where the data set looks for them.
    table.targets = form.columns.targets;
    for (std::size_t c = 0; c < form.columns.columns.size(); ++c) {
      if (!table.is_target(c)) continue;
      if (!there) table.columns.insert(table.columns.begin() + static_cast<std::ptrdiff_t>(c), Column());
      table.columns[c] = form.columns.columns[c];
      table.columns[c].values.assign(table.rows, 0.0F);
    }
  }
  alike.samples = std::make_shared<TableDataset>(std::move(table), form.scales, options.table);
  return alike;
}

Alike alike_images(const DataForm& form, Images images, bool labelled) {
  Alike alike;
  alike.labelled = labelled;
  images.classes = form.spec.classes;
  alike.samples = std::make_shared<ImageDataset>(std::move(images), form.normalization);
  return alike;
}

Alike alike_idx(const DataForm& form, const fs::path& path, bool train) {
  if (fs::is_directory(path))
    return alike_images(form, train ? read_idx_train(path, form.spec.classes) : read_idx_test(path, form.spec.classes),
                        true);
  IdxArray array = read_idx(path);
  if (array.extents.size() != 3)
    throw Error(ErrorKind::kMismatch, fmt::format("has {} dimensions; images have 3", array.extents.size()),
                path.string());
  Images images;
  images.channels = 1;
  images.height = static_cast<std::int64_t>(array.extents[1]);
  images.width = static_cast<std::int64_t>(array.extents[2]);
  images.pixels = std::move(array.values);
  images.labels.assign(array.extents[0], 0);
  return alike_images(form, std::move(images), false);
}

Alike alike_packed(const fs::path& path, bool train) {
  Alike alike;
  const bool test = !train && PackedDataset::exists(path, "test");
  alike.samples = std::make_shared<PackedDataset>(path, test ? "test" : "train");
  return alike;
}

Alike open(const SourceOptions& options, const DataForm& form, const fs::path& path, const AlikeOptions& wanted) {
  const std::string& source = options.source;
  if (source == "csv") return alike_table(options, form, path, wanted);
  if (source == "numpy") return alike_arrays(form, path, wanted.train);
  if (source == "pictures") return alike_pictures(options, form, path, *wanted.bad_samples);
  if (source == "idx" || source == "fashion-mnist") return alike_idx(form, path, wanted.train);
  if (source == "cifar10")
    return alike_images(form, wanted.train ? read_cifar10_train(path) : read_cifar10_test(path), true);
  if (source == "packed") return alike_packed(path, wanted.train);
  if (source == "text") return alike_text(options, form, path);
  throw Error(ErrorKind::kUnsupported, fmt::format("models of the source \"{}\" cannot be given other files", source),
              path.string());
}

}  // namespace

Alike open_alike(const SourceOptions& options, const DataForm& form, const fs::path& path, const AlikeOptions& given) {
  AlikeOptions wanted = given;
  if (!wanted.bad_samples) wanted.bad_samples = std::make_shared<BadSamples>(options.bad_samples);
  if (!fs::exists(path)) throw Error(ErrorKind::kNotFound, "there is no such file or folder", path.string());
  Alike alike = open(options, form, path, wanted);
  const SampleSpec& spec = alike.samples->spec();
  if (spec.shape != form.spec.shape || spec.target != form.spec.target ||
      (spec.target != TargetKind::kClass && spec.target_shape != form.spec.target_shape)) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("has samples of {}; the model was trained on {}", describe(spec), describe(form.spec)),
                path.string());
  }
  // Shards bring a scale of their own, by which their values were packed.
  const auto same = [](const ValueScale& a, const ValueScale& b) { return a.mean == b.mean && a.stddev == b.stddev; };
  if (!std::equal(spec.target_scale.begin(), spec.target_scale.end(), form.spec.target_scale.begin(),
                  form.spec.target_scale.end(), same)) {
    throw Error(ErrorKind::kMismatch, "has values by another scale than the training data", path.string(),
                "Pack both from the same job, or evaluate on the table itself.");
  }
  if (!alike.name) {
    alike.name = [path, samples = alike.samples](std::uint64_t id) {
      const std::string name = samples->name(id);
      return name.empty() ? fmt::format("{}:{}", path.string(), id) : name;
    };
  }
  alike.bad_samples = wanted.bad_samples;
  if (alike.bad_samples->skipping())
    alike.samples = alike.tolerant = std::make_shared<Tolerant>(alike.samples, alike.bad_samples);
  return alike;
}

}  // namespace muster::data
