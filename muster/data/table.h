// Table: the columns of a CSV file in memory, ready to be read as samples.
//
// A column is numeric (a float a row), categorical (the number of its category a row) or left out. Kinds are declared,
// or inferred from the first 4,096 rows: numeric if at least nine in ten of the values that are there are numbers.
// Blanks around a column's name, a category or a number are no part of it.
// Memory: 4 bytes a row and column that is kept, the target included; the file itself is streamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/bad_samples.h"
#include "muster/data/table_options.h"

namespace muster::data {

class CsvReader;  // csv_reader.h

enum class ColumnKind { kNumeric, kCategorical, kIgnored };

struct Column {
  std::string name = {};
  ColumnKind kind = ColumnKind::kNumeric;
  // Numbers as the file has them, not-a-number where they are missing; of categorical columns positions in
  // `categories`, -1 for one that the table this one was read like does not have.
  std::vector<float> values = {};
  std::vector<std::string> categories = {};  // in order: as numbers if all are integers, else by their bytes
  // Of a table that was read like another: rows with a category that the other does not have, and some of those.
  std::uint64_t unknown = 0;
  std::vector<std::string> unknown_examples = {};
};

// How the numbers of a column become features: (x - mean) / stddev, with `missing` for a missing x.
struct ColumnScale {
  double mean = 0;
  double stddev = 1;
  double missing = 0;
};

struct Table {
  // Rows that stand one below the other in the file, from `row` on.
  struct Run {
    std::uint64_t row = 0;
    std::uint64_t line = 0;
  };

  std::vector<Column> columns = {};
  std::vector<std::size_t> targets = {};  // positions in `columns`; one, or several of numbers; none: unlabelled
  std::uint64_t rows = 0;
  std::string file = {};                        // as its reader calls it
  std::vector<Run> runs = {};                   // rising
  std::vector<std::string> ids = {};            // of each row, where TableOptions::id names a column
  std::vector<std::string> extra_columns = {};  // of the file, which the table that it was read like does not have

  bool is_target(std::size_t column) const;
  std::uint64_t bytes_per_row() const;
  // Of the file. REQUIRES: row < rows, of a table that was read.
  std::uint64_t line_of(std::uint64_t row) const;
};

// Whether a field stands for nothing: empty, NA, N/A, null, NULL, None or ?. A missing number is a question of
// TableOptions::missing_value, a missing category is a category of its own ("").
bool is_missing(std::string_view field);

// Reads a whole table. Rows that cannot be used (another number of fields than the first, no number in a numeric
// column, a target that is missing) go to `bad`, each with file and line.
// `like` is the table whose columns, kinds, categories and targets this one gets: the training table, for a test
// table. It may be without targets. Where there is a header columns are found by their names, in any order: those that
// `like` ignores may be missing, and others may be there beside them; without one, by their places.
// Throws what CsvReader and BadSamples::report throw; kInvalidInput for columns that are not there; kMismatch if
// columns of `like` are missing; kDamaged for a file without rows, a column of more than kMostCategories (the
// target: 1,000,000), a target with less than 2 classes; kResource.
Table read_table(CsvReader& reader, const TableOptions& options, BadSamples& bad, const Table* like = nullptr);

// Opens a file (plain, gzip or zstd) and reads it.
Table read_table(const std::filesystem::path& path, const TableOptions& options, BadSamples& bad,
                 const Table* like = nullptr);

// The records of a file, decoded and cut as the options say. Throws as ByteReader::open.
CsvReader open_csv(const std::filesystem::path& path, const TableOptions& options);

// These rows, in this order, with the columns and categories of the whole; nobody knows their lines any more. REQUIRES:
// every row below table.rows.
Table take_rows(const Table& table, std::span<const std::uint64_t> rows);

// Into the order of categories, which depends on what they are and not on which row has them first: as numbers if all
// are integers, else by their bytes.
void sort_as_categories(std::vector<std::string>& names);

// Without the blanks around it.
std::string_view trimmed(std::string_view text);

// A field of a table as a number, by the options' decimal sign. A point beside a decimal comma makes it none.
std::optional<float> parse_number(std::string_view field, const TableOptions& options);

// What people should know of a table that was read like another: columns that are not used, values that training never
// saw. A sentence each.
std::vector<std::string> notes_on(const Table& table);

constexpr std::size_t kMostCategories = 1000;  // of a column

}  // namespace muster::data
