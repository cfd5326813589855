// TableDataset: the rows of a table as samples: numbers normalised, categories as one-hot columns.
//
// The features of a row are its columns in the file's order, without the target: one for a numeric column, one for each
// category of a categorical column. A category that the training rows do not have is all zeros. A target of numbers is
// normalised too, so that the loss does not depend on its unit; the spec says by what. Rows of a table without a target
// have labels that mean nothing, of no classes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/table.h"

namespace muster::data {

// One for each column, from the rows for which `counts` is true, in row order: mean and (population) standard deviation
// of what is not missing; 0 and 1 for columns that are neither numeric features nor a target of numbers, stddev 1 for
// one without variance.
std::vector<ColumnScale> measure(const Table& table, const std::vector<bool>& counts, const TableOptions& options);

// Immutable after construction. Thread safety: as Dataset.
class TableDataset final : public Dataset {
 public:
  // Normalises the table's columns in place. Throws kInvalidInput when no column is left to learn from.
  // REQUIRES: a scale for each column.
  TableDataset(Table table, const std::vector<ColumnScale>& scales, const TableOptions& options);

  std::uint64_t size() const override { return table_.rows; }
  const SampleSpec& spec() const override { return spec_; }
  // For classes. REQUIRES: as Dataset::read.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override;
  // File and line; empty for a table that was not read from one.
  std::string name(std::uint64_t id) const override;
  std::int64_t label(std::uint64_t id) const override;
  bool knows_labels() const override { return true; }

 private:
  void read_features(std::uint64_t id, std::span<float> features) const;

  Table table_;
  SampleSpec spec_;
};

}  // namespace muster::data
