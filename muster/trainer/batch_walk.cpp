// Submits the next batches to a loader and hands them out in order; the last one may be short. Whoever stops early
// drops what was read ahead.
#include "muster/trainer/batch_walk.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "muster/base/check.h"
#include "muster/base/deadline.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::seconds kLoadTimeout{60};
constexpr std::size_t kAhead = 3;  // batches

}  // namespace

BatchWalk::BatchWalk(std::shared_ptr<const data::Dataset> dataset, const BatchWalkOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      batches_((dataset_->size() + options.batch - 1) / options.batch),
      loader_(dataset_, {.threads = options.loader_threads}),
      submitted_(options.first) {
  MUSTER_CHECK(options.batch > 0 && options.stride > 0, "batches of something");
}

void BatchWalk::submit() {
  for (; tickets_.size() < kAhead && submitted_ < batches_; submitted_ += options_.stride) {
    const std::uint64_t first = submitted_ * options_.batch;
    std::vector<std::uint64_t> ids(std::min(options_.batch, dataset_->size() - first));
    std::iota(ids.begin(), ids.end(), first);
    tickets_.push_back(loader_.submit(std::move(ids)));
  }
}

data::Batch* BatchWalk::next() {
  if (current_) loader_.recycle(std::move(*current_));
  current_.reset();
  submit();
  if (tickets_.empty()) return nullptr;
  current_ = loader_.take(tickets_.front(), Deadline::after(kLoadTimeout));
  tickets_.pop_front();
  index_ = current_->ids.front() / options_.batch;
  return &*current_;
}

}  // namespace muster::trainer
