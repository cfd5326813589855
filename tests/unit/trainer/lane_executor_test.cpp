// What a lane gives depends on its task alone: not on what was computed before it, nor on who computes it. By the
// executor itself, without session and strategy; against LibTorch a session is tested (session_workers_test.cpp).
#include "muster/trainer/lane_executor.h"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "muster/data/lane_order.h"
#include "muster/trainer/lane_feed.h"
#include "support/errors.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

struct ComputedLane {
  std::vector<float> gradient;
  std::vector<std::uint8_t> present;
  std::vector<std::byte> buffers;
  double loss = 0;

  bool operator==(const ComputedLane&) const = default;
};

// A worker's model, with running statistics and dropout, and what computes its lanes.
class LaneWorker {
 public:
  LaneWorker() {
    net_->drop = 0.3;
    binding_.read_parameters(values_);
    binding_.read_buffers(committed_);
    binding_.attach({values_, values_}, nullptr);
    binding_.show(0);
  }

  Lane& begin(std::size_t lane, ComputedLane& result) {
    result = {std::vector<float>(binding_.layout().size()),
              std::vector<std::uint8_t>(binding_.layout().tensors().size()),
              std::vector<std::byte>(binding_.buffer_layout().bytes)};
    return executor.begin({.plan = plan_,
                           .index = lane,
                           .batch = feed_.take(plan_, lane),
                           .buffers = committed_,
                           .area = {result.gradient, result.present, result.buffers}});
  }
  void backward(Lane& lane) {
    lane.backward(torch::nn::functional::cross_entropy(net_->forward(lane.data), lane.target));
  }
  ComputedLane compute(std::size_t index) {
    ComputedLane result;
    Lane& lane = begin(index, result);
    backward(lane);
    result.loss = lane.told().report.loss_sum;
    feed_.recycle(executor.finish());
    return result;
  }
  void freeze(std::size_t tensor) { rules_[tensor].trainable = false; }
  const std::string& name_of(std::size_t tensor) const { return binding_.layout().tensors()[tensor].name; }

 private:
  const std::shared_ptr<testing::BatchNormNet> net_ = testing::make_net<testing::BatchNormNet>(1);
  FrozenParts frozen_{compute::Tuning(), *net_};
  compute::ModuleBinding binding_{net_};
  std::vector<float> values_ = std::vector<float>(binding_.layout().size());
  std::vector<std::byte> committed_ = std::vector<std::byte>(binding_.buffer_layout().bytes);
  std::vector<compute::TensorRule> rules_ = std::vector<compute::TensorRule>(binding_.layout().tensors().size());
  const data::BatchShape shape_{24, 12, 3};
  LaneFeed feed_{testing::line_data(24), std::make_shared<data::GlobalOrder>(shape_, 1), {}};
  const data::StepPlan plan_ = feed_.order().plan({});

 public:
  LocalExecutor executor{LaneModel{.binding = binding_, .frozen = frozen_, .rules = rules_, .seed = 3}};
};

TEST(LaneExecutor, ALaneDependsOnItsTaskAlone) {
  LaneWorker worker;
  const ComputedLane alone = worker.compute(1);
  EXPECT_NE(alone, worker.compute(0)) << "the lanes are different ones";
  worker.compute(2);
  EXPECT_EQ(worker.compute(1), alone) << "after others";
  LaneWorker another;
  torch::manual_seed(99);
  EXPECT_EQ(another.compute(1), alone) << "by somebody else";
}

TEST(LaneExecutor, ALaneThatIsGivenUpLeavesNothingBehind) {
  LaneWorker worker;
  const ComputedLane alone = worker.compute(1);
  ComputedLane given_up;
  worker.backward(worker.begin(0, given_up));
  EXPECT_TRUE(worker.executor.active());
  worker.executor.abandon();
  EXPECT_FALSE(worker.executor.active());
  EXPECT_EQ(worker.compute(1), alone);
}

TEST(LaneExecutor, ALaneWithoutBackwardIsRefusedAndOver) {
  LaneWorker worker;
  ComputedLane result;
  worker.begin(0, result);
  testing::expect_error(ErrorKind::kInvalidInput, "without backward()", [&] { worker.executor.finish(); });
  EXPECT_FALSE(worker.executor.active());
}

TEST(LaneExecutor, AGradientOfWhatNeverTrainsIsRefusedByName) {
  LaneWorker worker;
  worker.freeze(0);
  testing::expect_error(ErrorKind::kInvalidInput, worker.name_of(0), [&] { worker.compute(0); });
}

}  // namespace
}  // namespace muster::trainer
