// The samples of a data set in their order, batch by batch, read ahead of whoever uses them. No torch here.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "muster/data/dataset.h"
#include "muster/data/loader.h"
#include "muster/trainer/evaluation_batch.h"

namespace muster::trainer {

struct BatchWalkOptions {
  std::uint64_t batch = kEvaluationBatch;
  int loader_threads = 1;
  std::uint64_t first = 0;   // batch, and
  std::uint64_t stride = 1;  // every so manieth after it: those who share the walk
};

// Thread safety: one thread.
class BatchWalk {
 public:
  BatchWalk(std::shared_ptr<const data::Dataset> dataset, const BatchWalkOptions& options);

  // Batches of the whole data set.
  std::uint64_t batches() const { return batches_; }
  // The next batch, good until the next call; null at the end. Throws what the loader throws.
  data::Batch* next();
  std::uint64_t index() const { return index_; }  // of the batch that next() gave

 private:
  void submit();

  const std::shared_ptr<const data::Dataset> dataset_;
  const BatchWalkOptions options_;
  const std::uint64_t batches_;
  data::Loader loader_;
  std::deque<data::Loader::Ticket> tickets_;
  std::uint64_t submitted_;
  std::uint64_t index_ = 0;
  std::optional<data::Batch> current_;
};

}  // namespace muster::trainer
