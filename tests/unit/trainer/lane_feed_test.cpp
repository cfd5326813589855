// A data set that tells how often it is read: what is asked for comes, what was read in vain goes.
#include "muster/trainer/lane_feed.h"

#include <algorithm>
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/permutation.h"

namespace muster::trainer {
namespace {

using ::testing::ElementsAreArray;

constexpr data::BatchShape kShape{20, 8, 2};

// Sample n is the number n, and tells how often samples were read.
class Numbers final : public data::Dataset {
 public:
  std::uint64_t size() const override { return kShape.samples; }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    ++reads;
    features[0] = static_cast<float>(id);
    return static_cast<std::int64_t>(id);
  }
  mutable std::atomic<std::uint64_t> reads = 0;

 private:
  data::SampleSpec spec_{.shape = {1}, .classes = 0};
};

data::StepPlan step(std::uint64_t number) {
  return data::plan_step(data::cursor_at_step(number, kShape), kShape);
}

class LaneFeedTest : public ::testing::Test {
 protected:
  // Without threads take() reads by itself, so that what is read is known.
  LaneFeed feed(std::size_t prefetch = 4) const {
    return LaneFeed(numbers_, std::make_shared<data::GlobalOrder>(kShape, 3),
                    {.seed = 3, .loader_threads = 0, .prefetch = prefetch});
  }
  // What stands in the epoch's order where the lane lies.
  static std::vector<std::uint64_t> expected(const data::StepPlan& plan, std::size_t lane) {
    const data::Permutation order(kShape.samples, 3, plan.at.epoch);
    std::vector<std::uint64_t> ids;
    for (std::uint64_t position = plan.lanes[lane].begin; position < plan.lanes[lane].end; ++position)
      ids.push_back(order(position));
    return ids;
  }

  std::shared_ptr<Numbers> numbers_ = std::make_shared<Numbers>();
};

TEST_F(LaneFeedTest, GivesTheSamplesOfTheLaneWhetherItWasExpectedOrNot) {
  LaneFeed feed = this->feed();
  for (std::uint64_t number = 0; number < 6; ++number) {  // two epochs, each with a short last step
    const data::StepPlan plan = step(number);
    if (number % 2 == 0) feed.expect(plan, {0});
    for (std::size_t lane = plan.lanes.size(); lane-- > 0;) {
      data::Batch batch = feed.take(plan, lane);
      EXPECT_THAT(batch.ids, ElementsAreArray(expected(plan, lane))) << number << ", " << lane;
      for (std::size_t i = 0; i < batch.size(); ++i)
        EXPECT_EQ(batch.features.data()[i], static_cast<float>(batch.ids[i]));
      feed.recycle(std::move(batch));
    }
  }
  EXPECT_EQ(numbers_->reads, 2 * kShape.samples) << "nothing was read twice";
}

TEST_F(LaneFeedTest, ReadsNoFurtherAheadThanItWasTold) {
  LaneFeed feed = this->feed(3);
  feed.expect(step(0), {0, 1});
  EXPECT_FALSE(feed.full());
  feed.expect(step(0), {0, 1});  // they are on their way
  EXPECT_FALSE(feed.full());
  feed.expect(step(1), {0, 1});
  EXPECT_TRUE(feed.full());
  EXPECT_THAT(feed.take(step(1), 1).ids, ElementsAreArray(expected(step(1), 1))) << "beyond the limit, yet there";
}

TEST_F(LaneFeedTest, WhatWasReadInVainIsForgotten) {
  LaneFeed feed = this->feed(2);
  feed.expect(step(0), {0, 1});
  feed.forget_before(0);
  EXPECT_TRUE(feed.full());
  feed.take(step(0), 1);
  feed.expect(step(1), {1});
  feed.forget_before(1);
  EXPECT_FALSE(feed.full());
  EXPECT_THAT(feed.take(step(1), 1).ids, ElementsAreArray(expected(step(1), 1)));
}

}  // namespace
}  // namespace muster::trainer
