// Tensors come in every order; buckets are taken in one.
#include "muster/strategies/all_reduce/bucket_pipeline.h"

#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"

namespace muster::strategies {
namespace {

using std::chrono::seconds;

// In flat order, which is against the order of registration: tensor 0 is "last" alone in bucket 0; tensor 1, of three
// blocks, is in buckets 1 to 3, the last of which it shares with tensors 2 and 3.
class BucketPipelineTest : public ::testing::Test {
 protected:
  void open() {
    pipeline_.emplace(layout_, buckets_, [this](std::size_t bucket) {
      const MutexLock lock(mutex_);
      if (bucket == failing_) throw Error(ErrorKind::kPeerLost, "worker 1 is lost");
      done_.push_back(bucket);
      changed_.notify_all();
    });
    pipeline_->begin();
  }
  std::vector<std::size_t> done_after(std::size_t count) {
    const Deadline deadline = Deadline::after(seconds(60));
    const MutexLock lock(mutex_);
    while (done_.size() < count && !deadline.passed())
      changed_.wait_for(mutex_, std::chrono::milliseconds(10));
    return done_;
  }
  static Deadline soon() { return Deadline::after(seconds(60)); }

  const model::FlatLayout layout_{{{"d", {3}},
                                   {"c", {5}},
                                   {"long", {3 * static_cast<std::int64_t>(model::kBlockFloats) - 100}},
                                   {"last", {static_cast<std::int64_t>(model::kBlockFloats)}}}};
  const std::vector<Bucket> buckets_ = plan_buckets(layout_, model::kBlockFloats * sizeof(float));
  Mutex mutex_;
  Condition changed_;
  std::vector<std::size_t> done_ MUSTER_GUARDED_BY(mutex_);
  std::size_t failing_ MUSTER_GUARDED_BY(mutex_) = 99;
  std::optional<BucketPipeline> pipeline_;
};

using Order = std::vector<std::size_t>;

TEST_F(BucketPipelineTest, TakesABucketWhenAllItsTensorsAreThereAndKeepsTheOrder) {
  ASSERT_EQ(buckets_.size(), 4U);
  open();
  pipeline_->tensor_ready(1);
  pipeline_->tensor_ready(2);
  EXPECT_FALSE(pipeline_->busy()) << "bucket 0 comes first";
  pipeline_->tensor_ready(0);
  EXPECT_EQ(done_after(3), (Order{0, 1, 2}));  // bucket 3 lacks tensor 3
  pipeline_->tensor_ready(3);
  EXPECT_EQ(done_after(4), (Order{0, 1, 2, 3}));
  EXPECT_TRUE(pipeline_->busy()) << "until finish()";
  pipeline_->finish(soon());
  EXPECT_FALSE(pipeline_->busy());
}

TEST_F(BucketPipelineTest, TensorsThatNeverComeWaitForTheEndOfTheStep) {
  open();
  for (int step = 0; step < 3; ++step) {
    if (step > 0) pipeline_->begin();
    pipeline_->tensor_ready(2);
    pipeline_->finish(soon());
  }
  EXPECT_EQ(done_after(12), (Order{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST_F(BucketPipelineTest, AFailureIsToldAtTheEndOfTheStepAndStays) {
  {
    const MutexLock lock(mutex_);
    failing_ = 1;
  }
  open();
  for (int again = 0; again < 2; ++again) {
    try {
      pipeline_->finish(soon());
      ADD_FAILURE() << "finished";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    }
  }
  EXPECT_THROW(pipeline_->begin(), Error);
  EXPECT_EQ(done_after(1), (Order{0}));
}

TEST_F(BucketPipelineTest, AStepIsForgottenBeforeItsFirstBucketAndNotAfter) {
  open();
  pipeline_->tensor_ready(1);
  pipeline_->begin();
  pipeline_->tensor_ready(0);
  EXPECT_EQ(done_after(1), (Order{0}));
  EXPECT_THROW(pipeline_->begin(), Error);
  pipeline_->finish(soon());
  pipeline_->begin();
}

TEST_F(BucketPipelineTest, AWaitHasItsDeadline) {
  open();
  const auto hold = std::make_unique<MutexLock>(mutex_);  // the work waits for it
  try {
    pipeline_->finish(Deadline::after(std::chrono::milliseconds(1)));
    ADD_FAILURE() << "finished";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  }
}

}  // namespace
}  // namespace muster::strategies
