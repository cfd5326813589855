#include "muster/data/open_alike.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/array_dataset.h"
#include "muster/data/cifar10.h"
#include "muster/data/idx.h"
#include "muster/data/image_dataset.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/pictures/picture_source.h"
#include "muster/data/source_parts.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

std::string row_name(const fs::path& path, std::uint64_t id) {
  return fmt::format("{}:{}", path.filename().string(), id);
}

// Whether the table in the file has the target's column.
bool has_target(const fs::path& path, const TableOptions& options, const Table& like) {
  CsvReader reader(ByteReader::open(path), path.string(), options.delimiter);
  std::vector<std::string_view> fields;
  if (!reader.next(fields)) throw Error(ErrorKind::kDamaged, "is empty", path.string());
  if (!options.header) return fields.size() + 1 != like.columns.size();
  return std::find(fields.begin(), fields.end(), like.columns[like.target].name) != fields.end();
}

Alike alike_table(const SourceOptions& options, const DataForm& form, const fs::path& path) {
  Alike alike;
  alike.bad_samples = std::make_shared<BadSamples>(options.bad_samples);
  alike.labelled = has_target(path, options.table, form.columns);
  Table like = form.columns;
  TableOptions table_options = options.table;
  Column target = like.columns[like.target];
  if (!alike.labelled) {
    like.columns.erase(like.columns.begin() + static_cast<std::ptrdiff_t>(like.target));
    like.target = std::numeric_limits<std::size_t>::max();
    table_options.target.clear();
  }
  Table table = read_table(path, table_options, *alike.bad_samples, &like);
  if (!alike.labelled) {
    target.values.assign(table.rows, 0.0F);
    table.target = form.columns.target;
    table.columns.insert(table.columns.begin() + static_cast<std::ptrdiff_t>(table.target), std::move(target));
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

Alike alike_idx(const DataForm& form, const fs::path& path) {
  if (fs::is_directory(path)) return alike_images(form, read_idx_test(path, form.spec.classes), true);
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

Alike alike_packed(const fs::path& path) {
  Alike alike;
  const bool test = PackedDataset::exists(path, "test");
  alike.samples = std::make_shared<PackedDataset>(path, test ? "test" : "train");
  return alike;
}

Alike open(const SourceOptions& options, const DataForm& form, const fs::path& path) {
  const std::string& source = options.source;
  if (source == "csv") return alike_table(options, form, path);
  if (source == "numpy") return alike_arrays(form, path);
  if (source == "pictures") return alike_pictures(options, form, path);
  if (source == "idx" || source == "fashion-mnist") return alike_idx(form, path);
  if (source == "cifar10") return alike_images(form, read_cifar10_test(path), true);
  if (source == "packed") return alike_packed(path);
  if (source == "text") return alike_text(options, form, path);
  throw Error(ErrorKind::kUnsupported, fmt::format("models of the source \"{}\" cannot be given other files", source),
              path.string());
}

}  // namespace

Alike open_alike(const SourceOptions& options, const DataForm& form, const fs::path& path) {
  if (!fs::exists(path)) throw Error(ErrorKind::kNotFound, "there is no such file or folder", path.string());
  Alike alike = open(options, form, path);
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
  if (!alike.name) alike.name = [path](std::uint64_t id) { return row_name(path, id); };
  if (!alike.bad_samples) alike.bad_samples = std::make_shared<BadSamples>(options.bad_samples);
  return alike;
}

}  // namespace muster::data
