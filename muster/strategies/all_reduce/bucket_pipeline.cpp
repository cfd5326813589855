// A count of missing tensors for each bucket; the thread takes the first bucket when its count is zero, never another
// one, because all workers have to take the same order. Its failure is kept and thrown in finish().
#include "muster/strategies/all_reduce/bucket_pipeline.h"

#include <algorithm>

#include "muster/base/error.h"

namespace muster::strategies {

BucketPipeline::BucketPipeline(const model::FlatLayout& layout, const std::vector<Bucket>& buckets, Work work)
    : work_(std::move(work)), buckets_of_(layout.tensors().size()), tensors_in_(buckets.size()) {
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const compute::BlockRange blocks = buckets[bucket].blocks;
    for (std::size_t block = blocks.first; block < blocks.last; ++block) {
      auto& [first, last] = buckets_of_[layout.blocks()[block].tensor];
      if (last == bucket + 1) continue;  // another block of the same tensor
      if (last == 0) first = bucket;
      last = bucket + 1;
      ++tensors_in_[bucket];
    }
  }
  missing_ = tensors_in_;
  next_ = buckets.size();
  thread_ = std::thread([this] { run(); });
}

BucketPipeline::~BucketPipeline() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BucketPipeline::begin() {
  const MutexLock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (begun_) {
    throw Error(ErrorKind::kInvalidInput, "a step was left after the workers had begun to sum its gradients", {},
                "Leave the loop between steps, or set parallel.overlap = false.");
  }
  missing_ = tensors_in_;
  next_ = 0;
}

void BucketPipeline::tensor_ready(std::size_t tensor) {
  {
    const MutexLock lock(mutex_);
    for (std::size_t bucket = buckets_of_[tensor].first; bucket < buckets_of_[tensor].second; ++bucket)
      --missing_[bucket];
    if (next_ == missing_.size() || missing_[next_] > 0) return;
  }
  changed_.notify_all();
}

void BucketPipeline::finish(const Deadline& deadline) {
  const MutexLock lock(mutex_);
  std::ranges::fill(missing_, 0U);
  changed_.notify_all();
  while (!failure_ && next_ < missing_.size()) {
    if (deadline.passed()) throw Error(ErrorKind::kTimeout, "the workers did not sum their gradients in time");
    changed_.wait_for(mutex_, std::chrono::milliseconds(100));
  }
  begun_ = false;
  if (failure_) std::rethrow_exception(failure_);
}

bool BucketPipeline::busy() {
  const MutexLock lock(mutex_);
  return begun_;
}

void BucketPipeline::run() {
  for (;;) {
    std::size_t bucket = 0;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && (failure_ || next_ == missing_.size() || missing_[next_] > 0))
        changed_.wait(mutex_);
      if (stopping_) return;
      bucket = next_;
      begun_ = true;
    }
    std::exception_ptr failure;
    try {
      work_(bucket);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const MutexLock lock(mutex_);
      failure_ = failure;
      if (!failure) ++next_;
    }
    changed_.notify_all();
  }
}

}  // namespace muster::strategies
