// The supervisor behind a gate that is opened and closed here: generations begin when it lets them, and not before.
#include <gmock/gmock.h>

#include "muster/control/membership.h"
#include "unit/launch/supervisor_fixture.h"

namespace muster::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the tests see of the gate they give away.
struct PlayedGate final : GenerationGate {
  std::optional<std::uint64_t> admit(const MembersWanted& now) override {
    wanted = now;
    if (!open || !now.fits(*open)) return std::nullopt;
    return std::exchange(open, std::nullopt);
  }
  bool prepare(std::uint64_t generation, comm::Store& store) override {
    if (generation == unusable) return false;
    store.set("hosts/" + std::to_string(generation), "text");
    prepared.push_back(generation);
    return true;
  }
  void adopted(std::uint64_t, comm::Store&) override {}
  void begun() override { ++times; }
  std::map<std::string, std::string> environment() const override { return {{"MUSTER_HOST", "7"}}; }

  MembersWanted wanted;
  std::optional<std::uint64_t> open;
  std::uint64_t unusable = 0;
  std::vector<std::uint64_t> prepared;
  int times = 0;
};

class GatedSupervisor : public SupervisorTest {
 protected:
  GatedSupervisor() { options_.gate = gate_; }
  Stage let_in(std::uint64_t members) {
    return [this, members](const SupervisorReport&) {
      gate_->open = members;
      return true;
    };
  }
  // `again` looks at reports in a row, so that what should not happen has had time to.
  static Stage reports(int again) {
    return [again](const SupervisorReport&) mutable { return --again <= 0; };
  }
  Stage wants(std::uint64_t members) {
    return [this, members](const SupervisorReport&) { return gate_->wanted.wanted == members; };
  }

  std::shared_ptr<PlayedGate> gate_ = std::make_shared<PlayedGate>();
};

TEST(MembersWanted, FitWhatLivesAndLeaveNobodyBehind) {
  const MembersWanted wanted{.wanted = 0b011, .present = 0b001, .possible = 0b011};
  EXPECT_TRUE(wanted.fits(0b001));
  EXPECT_TRUE(wanted.fits(0b011));
  EXPECT_FALSE(wanted.fits(0b010)) << "a member would be left behind";
  EXPECT_FALSE(wanted.fits(0b101)) << "nobody is there";
}

TEST_F(GatedSupervisor, NobodyTrainsBeforeTheGateOpens) {
  const auto nobody = [this](const SupervisorReport& report) {
    EXPECT_EQ(report.generation, 0U);
    EXPECT_EQ(gate_->times, 0);
    return true;
  };
  EXPECT_EQ(
      run(worker("train"), 2, {wants(0b11), reports(3), nobody, let_in(0b11), trains({0, 1}), send(SIGUSR2, {0, 1})}),
      0);
  EXPECT_THAT(gate_->prepared, ElementsAre(1U));
}

TEST_F(GatedSupervisor, AGenerationBeginsForOthersSakeAndTheNumberIsSkippedThatSomebodyHasUsed) {
  gate_->unusable = 2;
  EXPECT_EQ(run(worker("train"), 2,
                {wants(0b11), let_in(0b11), trains({0, 1}), let_in(0b11),
                 [](const auto& report) { return report.generation == 3; }, trains({0, 1}), send(SIGUSR2, {0, 1})}),
            0);
  EXPECT_THAT(gate_->prepared, ElementsAre(1U, 3U));
  EXPECT_EQ(gate_->times, 2);
}

TEST_F(GatedSupervisor, WhoWasLostIsNotReplacedBeforeAGenerationWithoutItHasBegun) {
  const auto closed = [this](const SupervisorReport& report) {
    EXPECT_TRUE(members_are(report, {0})) << "nobody was started on the seat that the generation still names";
    EXPECT_EQ(report.generation, 1U);
    EXPECT_TRUE(gate_->wanted.changed);
    EXPECT_EQ(gate_->wanted.wanted, 0b01U);
    return true;
  };
  EXPECT_EQ(run(worker("train"), 2,
                {wants(0b11), let_in(0b11), trains({0, 1}), send(SIGKILL, {1}), wants(0b01), reports(5), closed,
                 let_in(0b01), [](const auto& report) { return report.generation == 2; }, wants(0b11), let_in(0b11),
                 trains({0, 1}), send(SIGUSR2, {0, 1})}),
            0);
  EXPECT_THAT(told_, HasSubstr("worker 1 (pid "));
}

TEST_F(GatedSupervisor, WhatNamesADeadOneIsNotBegun) {
  EXPECT_EQ(run(worker("train"), 2,
                {wants(0b11), let_in(0b11), trains({0, 1}), send(SIGKILL, {1}), wants(0b01), let_in(0b11), reports(5),
                 [](const auto& report) {
                   EXPECT_EQ(report.generation, 1U);
                   return true;
                 },
                 let_in(0b01), [](const auto& report) { return report.generation == 2; }, wants(0b11), let_in(0b11),
                 trains({0, 1}), send(SIGUSR2, {0, 1})}),
            0);
}

TEST_F(GatedSupervisor, FixedWorkersAreNotWantedBeforeAllOfThemAreReady) {
  clock_ = &quick_clock_;
  options_.watch = {24h, 24h, 24h};
  const auto one_is_ready = [this](const SupervisorReport& report) {
    if (report.workers.empty() || report.workers[0].state != WorkerState::kReady) return false;
    quick_clock_.advance(2 * control::kGathering);  // others who start are not waited for any longer
    return true;
  };
  const auto nobody_is_wanted = [this](const SupervisorReport& report) {
    EXPECT_TRUE(gate_->wanted.fixed);
    EXPECT_EQ(gate_->wanted.possible, 0b01U);
    EXPECT_EQ(gate_->wanted.wanted, 0U);
    EXPECT_FALSE(gate_->wanted.changed);
    EXPECT_EQ(report.generation, 0U);
    return true;
  };
  EXPECT_EQ(run(worker("fixed-alone"), 2, {one_is_ready, reports(3), nobody_is_wanted, send(SIGUSR1, {0, 1})}), 3);
}

TEST_F(GatedSupervisor, WorkersAreToldWhatTheGateSays) {
  const TemporaryFolder folder;
  const std::string out = (folder / "told").string();
  EXPECT_EQ(run(shell("echo $MUSTER_HOST $MUSTER_RANK > " + out), 1), 0);
  EXPECT_EQ(slurp(out), "7 0\n");
}

}  // namespace
}  // namespace muster::launch
