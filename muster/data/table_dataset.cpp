// Columns are kept as they are in memory and widened (normalised, one-hot) only while a sample is read. Scales come
// from the training rows alone: the others must not leak into them.
#include "muster/data/table_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {
namespace {

bool is_feature(const Table& table, std::size_t c) {
  return !table.is_target(c) && table.columns[c].kind != ColumnKind::kIgnored;
}

}  // namespace

std::vector<ColumnScale> measure(const Table& table, const std::vector<bool>& counts, const TableOptions& options) {
  std::vector<ColumnScale> scales(table.columns.size());
  for (std::size_t c = 0; c < scales.size(); ++c) {
    const Column& column = table.columns[c];
    const bool scaled = is_feature(table, c) || (table.is_target(c) && options.regression);
    if (!scaled || column.kind != ColumnKind::kNumeric) continue;
    double sum = 0;
    double squares = 0;
    double shift = 0;  // some value of the column: sums of squares around it lose no digits
    std::uint64_t present = 0;
    for (std::uint64_t row = 0; row < table.rows; ++row) {
      const double value = column.values[row];
      if (!counts[row] || std::isnan(value)) continue;
      if (present == 0) shift = value;
      ++present;
      sum += value - shift;
      squares += (value - shift) * (value - shift);
    }
    ColumnScale& scale = scales[c];
    if (present > 0) {
      const double mean = sum / static_cast<double>(present);
      const double variance = squares / static_cast<double>(present) - mean * mean;
      scale.mean = shift + mean;
      if (variance > 0) scale.stddev = std::sqrt(variance);
    }
    scale.missing = options.missing_value ? static_cast<double>(*options.missing_value) : scale.mean;
  }
  return scales;
}

TableDataset::TableDataset(Table table, const std::vector<ColumnScale>& scales, const TableOptions& options)
    : table_(std::move(table)) {
  MUSTER_CHECK(scales.size() == table_.columns.size(), "a scale for each column");
  std::int64_t features = 0;
  for (std::size_t c = 0; c < table_.columns.size(); ++c) {
    Column& column = table_.columns[c];
    if (!is_feature(table_, c)) continue;
    if (column.kind == ColumnKind::kCategorical) {
      spec_.columns.push_back(static_cast<std::int64_t>(column.categories.size()));
      features += spec_.columns.back();
      continue;
    }
    spec_.columns.push_back(1);
    ++features;
    for (float& value : column.values) {
      const double present = std::isnan(value) ? scales[c].missing : static_cast<double>(value);
      value = static_cast<float>((present - scales[c].mean) / scales[c].stddev);
    }
  }
  if (features == 0) {
    throw Error(ErrorKind::kInvalidInput, "the table has no column beside its target to learn from", {},
                "Check data.target, data.ignore and data.delimiter.");
  }
  spec_.shape = {features};
  if (table_.targets.empty()) return;
  if (options.regression) {
    spec_.target = TargetKind::kValues;
    spec_.target_shape = {static_cast<std::int64_t>(table_.targets.size())};
    for (const std::size_t target : table_.targets) {
      const ColumnScale& scale = scales[target];
      for (float& value : table_.columns[target].values)
        value = static_cast<float>((static_cast<double>(value) - scale.mean) / scale.stddev);
      spec_.target_scale.push_back({scale.mean, scale.stddev});
    }
  } else {
    const Column& target = table_.columns[table_.targets.front()];
    spec_.classes = static_cast<std::int64_t>(target.categories.size());
    spec_.class_names = target.categories;
  }
}

void TableDataset::read_features(std::uint64_t id, std::span<float> features) const {
  MUSTER_CHECK(id < size(), "sample id beyond the data set");
  MUSTER_CHECK(features.size() == spec_.elements(), "features of another size than the samples");
  float* out = features.data();
  for (std::size_t c = 0; c < table_.columns.size(); ++c) {
    const Column& column = table_.columns[c];
    if (!is_feature(table_, c)) continue;
    if (column.kind == ColumnKind::kNumeric) {
      *out++ = column.values[id];
      continue;
    }
    std::fill_n(out, column.categories.size(), 0.0F);
    if (column.values[id] >= 0) out[static_cast<std::size_t>(column.values[id])] = 1.0F;
    out += column.categories.size();
  }
}

std::int64_t TableDataset::read(std::uint64_t id, std::span<float> features) const {
  MUSTER_CHECK(spec_.target == TargetKind::kClass, "a table of values has no labels");
  read_features(id, features);
  return label(id);
}

std::int64_t TableDataset::label(std::uint64_t id) const {
  return table_.targets.empty() ? 0 : static_cast<std::int64_t>(table_.columns[table_.targets.front()].values[id]);
}

std::string TableDataset::name(std::uint64_t id) const {
  return table_.runs.empty() ? std::string() : fmt::format("{}:{}", table_.file, table_.line_of(id));
}

void TableDataset::read_sample(std::uint64_t id, const SampleRoom& room) const {
  if (spec_.target == TargetKind::kClass) {
    room.labels[0] = read(id, room.features);
    return;
  }
  read_features(id, room.features);
  for (std::size_t i = 0; i < table_.targets.size(); ++i)
    room.values[i] = table_.columns[table_.targets[i]].values[id];
}

}  // namespace muster::data
