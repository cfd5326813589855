// Table: the columns of a CSV file in memory, ready to be read as samples.
//
// A column is numeric (a float a row), categorical (the number of its category a row) or left out. Kinds are declared,
// or inferred from the first 4,096 rows: numeric if at least nine in ten of the values that are there are numbers.
// Memory: 4 bytes a row and column that is kept, the target included; the file itself is streamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/bad_samples.h"
#include "muster/data/csv_reader.h"
#include "muster/data/table_options.h"

namespace muster::data {

enum class ColumnKind { kNumeric, kCategorical, kIgnored };

struct Column {
  std::string name = {};
  ColumnKind kind = ColumnKind::kNumeric;
  // Numbers as the file has them, not-a-number where they are missing; of categorical columns positions in
  // `categories`, -1 for one that the table this one was read like does not have.
  std::vector<float> values = {};
  std::vector<std::string> categories = {};  // in order: as numbers if all are integers, else by their bytes
};

struct Table {
  std::vector<Column> columns = {};
  std::size_t target = 0;  // position in `columns`
  std::uint64_t rows = 0;

  std::uint64_t bytes_per_row() const;
};

// Whether a field stands for nothing: empty, NA, N/A, null, NULL, None or ?. A missing number is a question of
// TableOptions::missing_value, a missing category is a category of its own ("").
bool is_missing(std::string_view field);

// Reads a whole table. Rows that cannot be used (another number of fields than the first, no number in a numeric
// column, a target that is missing) go to `bad`, each with file and line.
// `like` is the table whose columns, kinds, categories and target this one must have: the training table, for a test
// table. It may be without a target (one beyond its columns).
// Throws what CsvReader and BadSamples::report throw; kInvalidInput for columns that are not there; kMismatch for other
// columns than those of `like`; kDamaged for a file without rows, a column of more than 1,000 categories (the target:
// 1,000,000), a target with less than 2 classes; kResource.
Table read_table(CsvReader& reader, const TableOptions& options, BadSamples& bad, const Table* like = nullptr);

// Opens a file (plain, gzip or zstd) and reads it.
Table read_table(const std::filesystem::path& path, const TableOptions& options, BadSamples& bad,
                 const Table* like = nullptr);

}  // namespace muster::data
