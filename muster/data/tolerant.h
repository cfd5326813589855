// Tolerant: a data set in the place of whose damaged samples others stand. For data that is decoded as it is read, so
// that a bad sample shows only during training.
//
// A sample whose read throws Error{kDamaged} is replaced by the next one (id + 1, around the end), and if that is bad
// too by the one after. Which samples are damaged is a property of the files, so what stands in a lane stays a function
// of the job alone, whoever loads it: batches keep their size and lanes their weight. The loader and the ledger go on
// naming the id that was asked for: it was used up, though not seen; the ledger says of which ids that is so.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "muster/base/mutex.h"
#include "muster/data/bad_samples.h"
#include "muster/data/dataset.h"

namespace muster::data {

// Thread safety: as Dataset.
class Tolerant final : public Dataset {
 public:
  // Damaged samples are reported to `bad`, each once, however often it is met.
  Tolerant(std::shared_ptr<const Dataset> dataset, std::shared_ptr<BadSamples> bad);

  std::uint64_t size() const override { return dataset_->size(); }
  const SampleSpec& spec() const override { return dataset_->spec(); }
  // Throw what BadSamples::report throws, kDamaged if no sample at all can be read, and what the data set below throws
  // beside kDamaged.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  std::int64_t read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override;
  void will_read(std::span<const std::uint64_t> ids) const override { dataset_->will_read(ids); }
  void expect(std::span<const std::uint64_t> ids) const override { dataset_->expect(ids); }
  // Of the sample itself, whatever stands in its place.
  std::string name(std::uint64_t id) const override { return dataset_->name(id); }
  std::int64_t label(std::uint64_t id) const override { return dataset_->label(id); }
  bool knows_labels() const override { return dataset_->knows_labels(); }

  // Those of `ids` in whose place others stand, in their order, as far as they were read by this object.
  std::vector<std::uint64_t> damaged(std::span<const std::uint64_t> ids) const;

 private:
  template <typename Read>
  void read_first_good(std::uint64_t id, const Read& read) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<BadSamples> bad_;
  mutable Mutex mutex_;
  mutable std::set<std::uint64_t> reported_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::data
