// The source csv: a table, and further ones or parts of the first as test and validation set. All of them get the
// columns, categories and scales of the training rows.
#include <utility>

#include <fmt/format.h>

#include "muster/data/source_parts.h"
#include "muster/data/table_dataset.h"

namespace muster::data {

Data open_table(const SourceOptions& options) {
  const std::filesystem::path path = required_path(options, "the CSV file");
  Data data;
  data.bad_samples = std::make_shared<BadSamples>(options.bad_samples);
  Table table = read_table(path, options.table, *data.bad_samples);
  const std::uint64_t bytes_per_row = table.bytes_per_row();
  data.form.columns.targets = table.targets;
  for (const Column& column : table.columns)
    data.form.columns.columns.push_back({.name = column.name, .kind = column.kind, .categories = column.categories});
  const bool split_test = options.test_path.empty();
  const bool split_validation = options.validation_path.empty() && options.validation > 0;
  const TrainingIds ids(table.rows, split_test, split_validation, options);
  std::vector<bool> training(table.rows, false);
  for (std::uint64_t i = 0; i < ids.size(); ++i)
    training[ids(i)] = true;
  const auto scales = data.form.scales = measure(table, training, options.table);
  const auto read_other = [&](const std::filesystem::path& path_of_other) {
    Table other = read_table(path_of_other, options.table, *data.bad_samples, &table);
    for (std::string& note : notes_on(other))
      data.notes.push_back(std::move(note));
    return std::make_shared<TableDataset>(std::move(other), scales, options.table);
  };
  if (!split_test) data.test = read_other(options.test_path);
  if (!options.validation_path.empty()) data.validation = read_other(options.validation_path);
  auto all = std::make_shared<TableDataset>(std::move(table), scales, options.table);
  if (split_test) {
    hold_out_test(data, all, options);
  } else {
    data.train = all;
  }
  data.description = describe(data.train->size(), data.test->size(), data.train->spec(),
                              fmt::format("from {}, {} bytes a row in memory", path.string(), bytes_per_row));
  return data;
}

}  // namespace muster::data
