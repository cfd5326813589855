// The source csv: a table, and a second one or a part of the first as test set.
#include <utility>

#include <fmt/format.h>

#include "muster/data/source_parts.h"
#include "muster/data/subset.h"
#include "muster/data/table_dataset.h"

namespace muster::data {

Data open_table(const SourceOptions& options) {
  const std::filesystem::path path = required_path(options, "the CSV file");
  Data data;
  data.bad_samples = std::make_shared<BadSamples>(options.bad_samples);
  Table table = read_table(path, options.table, *data.bad_samples);
  const std::uint64_t bytes_per_row = table.bytes_per_row();
  data.form.columns.target = table.target;
  for (const Column& column : table.columns)
    data.form.columns.columns.push_back({.name = column.name, .kind = column.kind, .categories = column.categories});
  std::vector<bool> training(table.rows, true);
  if (!options.test_path.empty()) {
    Table test = read_table(options.test_path, options.table, *data.bad_samples, &table);
    const auto scales = data.form.scales = measure(table, training, options.table);
    data.train = std::make_shared<TableDataset>(std::move(table), scales, options.table);
    data.test = std::make_shared<TableDataset>(std::move(test), scales, options.table);
  } else {
    // The scale comes from the training rows alone: those that hold_out_test will leave.
    const SplitPlan plan = plan_split(table.rows, options.test_fraction, options.seed);
    for (std::uint64_t i = 0; i < plan.held_out; ++i)
      training[plan.order(i)] = false;
    const auto scales = data.form.scales = measure(table, training, options.table);
    hold_out_test(data, std::make_shared<TableDataset>(std::move(table), scales, options.table), options);
  }
  data.description = describe(data.train->size(), data.test->size(), data.train->spec(),
                              fmt::format("from {}, {} bytes a row in memory", path.string(), bytes_per_row));
  return data;
}

}  // namespace muster::data
