// The seam between a session and what computes its lanes: an executor that is not the session's own trains through the
// same session, and as far as it computes the same lanes the bits are the same.
#include "muster/trainer/lane_executor.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "muster/trainer/batch_tensors.h"
#include "muster/trainer/session.h"
#include "muster/trainer/session_core.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

struct Counts {
  int finished = 0;
  int abandoned = 0;
};

// Computes a lane away from where its result belongs, as another process would: on a copy of the samples and into
// memory of its own, from where the result is sent when it is whole.
class AwayExecutor final : public LaneExecutor {
 public:
  AwayExecutor(const LaneModel& model, float gain, Counts& counts) : model_(model), gain_(gain), counts_(counts) {}

  Lane& begin(LaneTask task) override {
    target_ = task.area;
    batch_ = std::move(task.batch);
    gradient_.assign(target_.gradient.size(), 0.0F);
    present_.assign(target_.present.size(), 0);
    buffers_.assign(target_.buffers.size(), std::byte{0});
    lane_ = Lane({.weight = task.plan.weight(task.index), .samples = static_cast<double>(batch_.size())});
    lane_.index = task.index;
    lane_.epoch = task.plan.at.epoch;
    lane_.step = task.plan.at.step;
    lane_.ids = batch_.ids;
    lane_.data = input_tensor(batch_).clone();
    lane_.target = target_tensor(batch_).clone();
    model_.binding.write_buffers(task.buffers);
    model_.binding.begin_lane({gradient_, present_, buffers_});
    torch::manual_seed(derive_seed({.seed = model_.seed,
                                    .purpose = Purpose::kLane,
                                    .epoch = lane_.epoch,
                                    .step = lane_.step,
                                    .lane = lane_.index}));
    active_ = true;
    return lane_;
  }
  bool active() const override { return active_; }
  Lane& lane() override { return lane_; }
  data::Batch finish() override {
    EXPECT_TRUE(lane_.has_backward());
    active_ = false;
    model_.binding.collect();
    model_.binding.read_buffers(buffers_);
    for (float& value : gradient_)
      value *= gain_;
    std::ranges::copy(gradient_, target_.gradient.begin());
    std::ranges::copy(present_, target_.present.begin());
    std::ranges::copy(buffers_, target_.buffers.begin());
    ++counts_.finished;
    return std::move(batch_);
  }
  void abandon() override {
    if (active_) ++counts_.abandoned;
    model_.binding.abandon_lane();
    active_ = false;
  }

 private:
  const LaneModel model_;
  const float gain_;
  Counts& counts_;
  Lane lane_;
  data::Batch batch_;
  compute::LaneArea target_;
  std::vector<float> gradient_;
  std::vector<std::uint8_t> present_;
  std::vector<std::byte> buffers_;
  bool active_ = false;
};

using ExecutorMaker = std::function<std::unique_ptr<LaneExecutor>(const LaneModel&)>;

ExecutorMaker away(Counts& counts, float gain = 1) {
  return [&counts, gain](const LaneModel& model) { return std::make_unique<AwayExecutor>(model, gain, counts); };
}

std::string train_with(const ExecutorMaker& executor, double lr) {
  const auto dataset = testing::line_data(50);  // a short last batch
  auto net = testing::make_net<testing::BatchNormNet>(1);
  net->drop = 0.3;
  const SessionOptions options{.batch = 16, .lanes = 3, .seed = 3};
  Session session(
      std::make_unique<SessionCore>(net, compute::Sgd{.lr = lr}, options, SessionParts{.executor = executor}));
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (Lane& lane : session.lanes(dataset))
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
  }
  EXPECT_GT(session.last_outcome().loss, 0);
  return session.weights_hash();
}

TEST(LaneExecutor, AnotherOneTrainsThroughTheSameSessionWithTheSameBits) {
  Counts counts;
  EXPECT_EQ(train_with(away(counts), 0.1), train_with({}, 0.1));
  EXPECT_EQ(counts.finished, 2 * (3 * 3 + 1)) << "two epochs of three whole steps and one of two samples";
}

TEST(LaneExecutor, WhatItComputesIsWhatIsTrained) {
  Counts counts;
  // Twice the gradient is twice the rate, to the bit.
  const std::string doubled = train_with(away(counts, 2), 0.1);
  EXPECT_EQ(doubled, train_with({}, 0.2));
  EXPECT_NE(doubled, train_with({}, 0.1));
}

TEST(LaneExecutor, ALoopThatIsLeftForgetsItsLane) {
  const auto dataset = testing::line_data(32);
  auto net = testing::make_net<testing::LinearNet>(1);
  Counts counts;
  const SessionOptions options{.batch = 16, .lanes = 2};
  Session session(
      std::make_unique<SessionCore>(net, compute::Sgd{.lr = 0.1}, options, SessionParts{.executor = away(counts)}));
  for (Lane& lane : session.lanes(dataset)) {
    if (lane.index == 1) break;
    lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
  }
  EXPECT_EQ(counts.abandoned, 0);
  session.synchronize();
  EXPECT_EQ(counts.abandoned, 1);
  EXPECT_EQ(session.cursor().step, 0U);
}

}  // namespace
}  // namespace muster::trainer
