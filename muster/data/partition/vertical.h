// Vertical partitioning: every party holds some columns of all samples, as when a bank and a shop know different things
// about the same people. A party's view of the data is a data set of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/partition/placement.h"

namespace muster::data {

// Consecutive columns, numbers that differ by at most one, longer parts first. A file of one's own choice: parse it as
// a manual placement of the columns (manual_placement.h). REQUIRES: parties > 0.
Placement place_columns(std::uint64_t columns, std::uint64_t parties);

// The columns of one party, in rising order, with the labels of the data set below. Immutable; shares ownership.
// Thread safety: as Dataset.
class Columns final : public Dataset {
 public:
  // Throws Error{kInvalidInput} if the samples have not one axis of as many columns as were placed, or the party has
  // none.
  Columns(std::shared_ptr<const Dataset> dataset, const Placement& placement, std::uint32_t party);

  std::uint64_t size() const override { return dataset_->size(); }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::uint64_t> columns_;
  SampleSpec spec_;
};

}  // namespace muster::data
