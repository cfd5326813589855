// Subset: a range of a keyed order of another data set's samples, as a data set. And the split into training
// and validation built from it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/permutation.h"

namespace muster::data {

// Immutable; shares ownership of the data set below. Thread safety: as Dataset.
class Subset final : public Dataset {
 public:
  // Sample i is sample order(begin + i) of `dataset`.
  // REQUIRES: begin <= end <= order.size() == dataset->size().
  Subset(std::shared_ptr<const Dataset> dataset, const Permutation& order, std::uint64_t begin, std::uint64_t end);

  std::uint64_t size() const override { return end_ - begin_; }
  const SampleSpec& spec() const override { return dataset_->spec(); }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  std::int64_t read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override;
  void will_read(std::span<const std::uint64_t> ids) const override;
  void expect(std::span<const std::uint64_t> ids) const override;
  std::string name(std::uint64_t id) const override { return dataset_->name(original(id)); }
  std::int64_t label(std::uint64_t id) const override { return dataset_->label(original(id)); }
  bool knows_labels() const override { return dataset_->knows_labels(); }

  // The id in the data set below. REQUIRES: id < size().
  std::uint64_t original(std::uint64_t id) const;
  std::vector<std::uint64_t> originals(std::span<const std::uint64_t> ids) const;

 private:
  std::shared_ptr<const Dataset> dataset_;
  Permutation order_;
  std::uint64_t begin_;
  std::uint64_t end_;
};

// Which of `size` samples are held out: order(0) to order(held_out - 1).
struct SplitPlan {
  Permutation order;
  std::uint64_t held_out = 0;
};

// Holds out `fraction` of the samples (rounded to the nearest number; at least one if fraction > 0, and at
// least one is left for training). Depends on size, fraction and seed alone. Throws Error{kInvalidInput} unless
// 0 <= fraction < 1, or if there are too few samples for two parts.
SplitPlan plan_split(std::uint64_t size, double fraction, std::uint64_t seed);

struct Split {
  std::shared_ptr<const Subset> train;
  std::shared_ptr<const Subset> validation;
};

// The data set in two by that plan; every sample is in exactly one part. Throws as plan_split.
Split split(std::shared_ptr<const Dataset> dataset, double fraction, std::uint64_t seed);

}  // namespace muster::data
