// A worker that comes while others come and go: its first meeting may fail, and then the next one counts as the first.
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/strategies/strategy_kind.h"
#include "muster/trainer/session.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

struct Meetings {
  int met = 0;
  int rejoined = 0;
  int lost_while_entering = 1;  // so many times somebody is lost before this worker has entered
};

// Of one worker, whose fellows are replaced.
class LivelyMembers final : public strategies::Membership {
 public:
  explicit LivelyMembers(Meetings& meetings) : meetings_(meetings) {}
  bool replaces() const override { return true; }
  bool founds() const override { return true; }
  const strategies::Members& members() const override { return members_; }
  void meet() override { ++meetings_.met; }
  void rejoin() override { ++meetings_.rejoined; }

 private:
  Meetings& meetings_;
  strategies::Members members_;
};

class LivelyStrategy final : public strategies::Strategy {
 public:
  LivelyStrategy(std::unique_ptr<strategies::Strategy> own, Meetings& meetings)
      : own_(std::move(own)), meetings_(meetings), members_(meetings) {}

  std::array<std::span<const float>, 2> parameter_versions() override { return own_->parameter_versions(); }
  std::shared_ptr<void> memory() override { return own_->memory(); }
  int committed_version() const override { return own_->committed_version(); }
  strategies::CommittedState committed() const override { return own_->committed(); }
  std::size_t state_bytes() const override { return own_->state_bytes(); }
  void restore(const strategies::CommittedState& state) override { own_->restore(state); }
  strategies::Membership& membership() override { return members_; }
  std::optional<strategies::StepOutcome> enter_generation() override {
    if (meetings_.lost_while_entering-- > 0) throw Error(ErrorKind::kPeerLost, "a later generation has begun");
    return {};
  }
  void begin_step(const data::StepPlan& plan) override { own_->begin_step(plan); }
  std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const override {
    return own_->expected_lanes(plan);
  }
  std::optional<std::size_t> claim() override { return own_->claim(); }
  compute::LaneArea area(std::size_t lane) override { return own_->area(lane); }
  void finish(std::size_t lane, const strategies::LaneResult& result) override { own_->finish(lane, result); }
  strategies::StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override {
    return own_->commit(rule, deadline);
  }

 private:
  std::unique_ptr<strategies::Strategy> own_;
  Meetings& meetings_;
  LivelyMembers members_;
};

struct Lively {
  Meetings* meetings = nullptr;

  static constexpr std::string_view kName = "lively";

  strategies::Traits traits() const { return {.replaces_workers = true}; }
  void add_keys(Section& /*parallel*/) {}
  strategies::StateMemory memory(const strategies::StateFigures&) const { return {}; }
  std::unique_ptr<strategies::Strategy> make(strategies::StrategyOptions needs) const {
    return std::make_unique<LivelyStrategy>(strategies::SharedSync().make(std::move(needs)), *meetings);
  }
};

TEST(SessionMeeting, OneThatFailsIsHeldAgainAndNotOnceMoreWithTheFirstStep) {
  for (const int losses : {0, 1, 3}) {
    Meetings meetings{.lost_while_entering = losses};
    const auto net = testing::make_net<testing::LinearNet>(1);
    SessionOptions options;
    options.batch = 16;
    options.strategy = Lively{&meetings};
    Session session(net, compute::Sgd{.lr = 0.1}, options);
    int lanes = 0;
    for (Lane& lane : session.lanes(testing::line_data(32))) {
      lane.backward(net->forward(lane.data).square().mean());
      ++lanes;
    }
    EXPECT_GT(lanes, 0) << "nobody outside learns of it";
    EXPECT_EQ(meetings.met, 1 + losses);
    EXPECT_EQ(meetings.rejoined, 0);
  }
}

}  // namespace
}  // namespace muster::trainer
