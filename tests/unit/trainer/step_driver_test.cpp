// The order in which a step goes through its strategy and its executor, on fakes that write down what they are asked:
// no model is trained here.
#include "muster/trainer/step_driver.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/strategies/members/fixed_members.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

using Record = std::vector<std::string>;

constexpr std::size_t kStepLanes = 3;

// This worker gets lanes 0 and 2, another one lane 1.
class FakeStrategy final : public strategies::Strategy {
 public:
  explicit FakeStrategy(Record& record) : record_(record) {}

  std::array<std::span<const float>, 2> parameter_versions() override { return {}; }
  std::shared_ptr<void> memory() override { return {}; }
  int committed_version() const override { return 0; }
  strategies::CommittedState committed() const override { return {}; }
  std::size_t state_bytes() const override { return 0; }
  void restore(const strategies::CommittedState&) override {}
  strategies::Membership& membership() override { return members_; }
  void begin_step(const data::StepPlan& plan) override {
    record_.push_back(fmt::format("begin step {}", plan.at.step));
    next_ = 0;
  }
  std::vector<std::size_t> expected_lanes(const data::StepPlan&) const override { return {0, 2}; }
  std::optional<std::size_t> claim() override {
    if (next_ >= kStepLanes) return std::nullopt;
    return std::exchange(next_, next_ + 2);
  }
  compute::LaneArea area(std::size_t) override { return {}; }
  void finish(std::size_t lane, const strategies::LaneResult& result) override {
    record_.push_back(fmt::format("finish lane {}, score {}{}", lane, result.report.score,
                                  result.wishes.stop ? ", wishes to stop" : ""));
  }
  strategies::StepOutcome commit(const compute::UpdateRule& rule, Deadline) override {
    record_.push_back(fmt::format("commit at rate {}", rule.lr));
    return {.applied = applies};
  }

  bool applies = true;

 private:
  Record& record_;
  strategies::FixedMembers members_{comm::Group()};
  std::size_t next_ = 0;
};

class FakeExecutor final : public LaneExecutor {
 public:
  explicit FakeExecutor(Record& record) : record_(record) {}

  Lane& begin(LaneTask task) override {
    batch_ = std::move(task.batch);
    lane_ = Lane();
    lane_.index = task.index;
    lane_.repeated = task.repeated;
    lane_.step = task.plan.at.step;
    record_.push_back(fmt::format("compute lane {}{}", task.index, task.repeated ? " again" : ""));
    active_ = true;
    return lane_;
  }
  bool active() const override { return active_; }
  Lane& lane() override { return lane_; }
  data::Batch finish() override {
    active_ = false;
    return std::move(batch_);
  }
  void abandon() override { active_ = false; }

 private:
  Record& record_;
  Lane lane_;
  data::Batch batch_;
  bool active_ = false;
};

class StepDriverTest : public ::testing::Test {
 protected:
  StepDriver driver() {
    return StepDriver({.options = options_,
                       .strategy = strategy_,
                       .executor = executor_,
                       .check = LaneCheck(layout_, buffers_),
                       .rule =
                           [] {
                             return compute::UpdateRule{nullptr, 0.5, std::nullopt, {}};
                           },
                       .begin_step = [](const data::Cursor&) {},
                       .stop_asked = [this] { return stop_; }});
  }
  // To the commit; every lane scores its number.
  void step(StepDriver& driver, const data::Cursor& cursor = {}) {
    while (Lane* const lane = driver.next(feed_, cursor))
      lane->add_score(static_cast<double>(lane->index));
  }

  Record record_;
  SessionOptions options_;
  FakeStrategy strategy_{record_};
  FakeExecutor executor_{record_};
  model::FlatLayout layout_;
  compute::BufferLayout buffers_;
  const data::BatchShape shape_{24, 12, kStepLanes};
  LaneFeed feed_{testing::line_data(24), std::make_shared<data::GlobalOrder>(shape_, 1), {}};
  bool stop_ = false;
};

TEST_F(StepDriverTest, ALaneIsFinishedBeforeTheNextOneAndTheStepCommittedAfterTheLast) {
  StepDriver driver = this->driver();
  step(driver);
  EXPECT_EQ(record_, (Record{"begin step 0", "compute lane 0", "finish lane 0, score 0", "compute lane 2",
                             "finish lane 2, score 2", "commit at rate 0.5"}));
}

TEST_F(StepDriverTest, AStepThatIsAbandonedBeginsAgainWithoutItsLane) {
  StepDriver driver = this->driver();
  driver.next(feed_, {});
  driver.abandon();
  record_.clear();
  step(driver);
  EXPECT_EQ(record_.front(), "begin step 0");
  EXPECT_EQ(record_[1], "compute lane 0") << "what was in work is not finished, but computed again";
  EXPECT_EQ(record_.back(), "commit at rate 0.5");
}

TEST_F(StepDriverTest, LanesAreVerifiedAfterAllAreDoneAndTheirSecondResultIsNotGivenToTheStrategy) {
  options_.verify_rate = 1;
  StepDriver driver = this->driver();
  step(driver);
  EXPECT_EQ(record_, (Record{"begin step 0", "compute lane 0", "finish lane 0, score 0", "compute lane 2",
                             "finish lane 2, score 2", "compute lane 0 again", "compute lane 1 again",
                             "compute lane 2 again", "commit at rate 0.5"}));
}

TEST_F(StepDriverTest, AWishToStopIsToldWithTheLane) {
  stop_ = true;
  StepDriver driver = this->driver();
  step(driver);
  EXPECT_EQ(record_[2], "finish lane 0, score 0, wishes to stop");
}

TEST_F(StepDriverTest, StepsThatAreNotAppliedAreCountedThoseOfARejoinToo) {
  StepDriver driver = this->driver();
  step(driver);
  EXPECT_EQ(driver.skipped().total, 0U);
  strategy_.applies = false;
  step(driver);
  driver.count({.applied = false});
  EXPECT_EQ(driver.skipped(), (SkippedSteps{.total = 2, .in_a_row = 2}));
  driver.go_on_after({.total = 7, .in_a_row = 3});
  driver.count({.applied = false});
  EXPECT_EQ(driver.skipped(), (SkippedSteps{.total = 8, .in_a_row = 4}));
  EXPECT_FALSE(driver.outcome().applied);
}

}  // namespace
}  // namespace muster::trainer
