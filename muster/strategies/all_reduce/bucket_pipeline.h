// Sums buckets while backward goes on: a thread that takes the buckets in order, each as soon as backward has given all
// of its tensors.
//
// Order is what workers have to agree on, and flat order is roughly backward's. A tensor that gets no gradient holds
// its bucket, and those behind it, until the worker says that nothing more will come.
// Thread safety: begin, tensor_ready and finish from one thread; the work is called in the pipeline's own.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/base/mutex.h"
#include "muster/strategies/replica/bucket_reducer.h"

namespace muster::strategies {

class BucketPipeline {
 public:
  using Work = std::function<void(std::size_t bucket)>;

  BucketPipeline(const model::FlatLayout& layout, const std::vector<Bucket>& buckets, Work work);
  // Waits for the bucket in work.
  ~BucketPipeline();
  BucketPipeline(const BucketPipeline&) = delete;
  BucketPipeline& operator=(const BucketPipeline&) = delete;

  // A new step: no tensor is ready. Throws kInvalidInput when the step before was left with some of its buckets summed:
  // other workers have them and wait for the rest.
  void begin();
  // Backward gave `tensor`, whose gradient does not change any more. Called once a tensor and step.
  void tensor_ready(std::size_t tensor);
  // Nothing more comes: works on what is left and waits for all. Throws what the work threw, and kTimeout.
  void finish(const Deadline& deadline);
  // Whether a step is between its first bucket and the end of finish().
  bool busy();

 private:
  void run();

  // Constant after construction.
  const Work work_;
  std::vector<std::pair<std::size_t, std::size_t>> buckets_of_;  // of each tensor: first, last + 1
  std::vector<std::size_t> tensors_in_;                          // of each bucket, how many

  Mutex mutex_;
  Condition changed_;
  std::vector<std::size_t> missing_ MUSTER_GUARDED_BY(mutex_);  // of each bucket, tensors that are not ready
  std::size_t next_ MUSTER_GUARDED_BY(mutex_) = 0;              // the first bucket that is not done
  bool begun_ MUSTER_GUARDED_BY(mutex_) = false;                // a bucket of the step was taken
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster::strategies
