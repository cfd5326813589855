// A standby: the table of what it does, and one that waits for its turn on a clock that is turned by hand, at a store
// with sessions that end when the test says so.
#include "muster/coordinator/standby.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "muster/base/error.h"

namespace muster::coordinator {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DecideStandby, TakesOverOnlyWhatNobodyHasLedForAWhile) {
  const Clock::Instant now{1h};
  const control::Lease lease{{12, 34}, 3, "space", "host a"};
  const auto ago = [&](std::chrono::nanoseconds time) { return std::optional(now - time); };
  struct Row {
    const char* what;
    StandbyView view;
    StandbyStep step;
    const char* reason;
  };
  const Row rows[] = {
      {"no answer", {.now = now, .lease = lease, .vacant_since = ago(1h)}, StandbyStep::kWait, "does not answer"},
      {"no job yet", {.now = now, .answered = true}, StandbyStep::kWait, "has not begun"},
      {"led",
       {.now = now, .answered = true, .lease = lease, .led = true, .vacant_since = ago(1h)},
       StandbyStep::kWait,
       "process 12 on host a coordinates the job (epoch 3)"},
      {"over",
       {.now = now,
        .answered = true,
        .lease = lease,
        .standing = {.phase = control::JobPhase::kStopped},
        .vacant_since = ago(1h)},
       StandbyStep::kEnd,
       "the job has stopped"},
      {"over, and its coordinator has not gone yet",
       {.now = now, .answered = true, .lease = lease, .led = true, .standing = {.phase = control::JobPhase::kFinished}},
       StandbyStep::kWait,
       "coordinates"},
      {"vacant, first seen", {.now = now, .answered = true, .lease = lease}, StandbyStep::kWait, "nobody"},
      {"vacant for a moment",
       {.now = now, .answered = true, .lease = lease, .vacant_since = ago(kCourtesy - 1ns)},
       StandbyStep::kWait,
       "nobody"},
      {"vacant for long enough",
       {.now = now, .answered = true, .lease = lease, .vacant_since = ago(kCourtesy)},
       StandbyStep::kTakeOver,
       "(process 12 on host a) has lost its lease"},
  };
  for (const Row& row : rows) {
    const StandbyDecision decision = decide_standby(row.view);
    EXPECT_EQ(decision.step, row.step) << row.what;
    EXPECT_THAT(decision.reason, HasSubstr(row.reason)) << row.what;
  }
}

// What an etcd promises, in memory: the entries of a session go when the test ends it.
class SessionStore final : public control::Store {
 public:
  std::optional<control::Entry> get(std::string_view key) override {
    if (silent) throw Error(ErrorKind::kTimeout, "no quorum");
    const auto found = entries_.find(std::string(key));
    return found == entries_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<control::Entry> list(std::string_view prefix) override {
    std::vector<control::Entry> found;
    for (const auto& [key, entry] : entries_)
      if (key.starts_with(prefix)) found.push_back(entry);
    return found;
  }
  std::uint64_t revision() override { return revision_; }
  std::optional<std::uint64_t> commit(const control::Transaction& transaction) override {
    if (silent) throw Error(ErrorKind::kTimeout, "no quorum");
    for (const auto& [key, revision] : transaction.conditions) {
      const auto found = entries_.find(key);
      if ((found == entries_.end() ? 0 : found->second.revision) != revision) return std::nullopt;
    }
    ++revision_;
    for (const auto& [key, value, of_session] : transaction.writes) {
      entries_.erase(key);
      if (value) entries_[key] = {key, *value, revision_};
    }
    return revision_;
  }
  bool has_sessions() const override { return true; }

  void end_session() { entries_.erase("job/leader"); }
  bool silent = false;

 private:
  std::map<std::string, control::Entry> entries_;
  std::uint64_t revision_ = 0;
};

class Standby : public ::testing::Test {
 protected:
  // The coordinator of before: of another process, so that nobody takes the try of this one for its own.
  void SetUp() override {
    coordinator_.take_over({12, 34});
    control::JobIdentity identity;
    identity.name = "far";
    coordinator_.begin(identity, {});
  }
  // Stands by; before each look `before_look` is told its number, and ends the waiting by true.
  std::optional<control::Lease> stand_by(const std::function<bool(int look)>& before_look) {
    StandbyOptions options;
    options.tell = [&](const std::string& line) { told_.push_back(line); };
    options.stop_requested = [&, look = 0]() mutable { return before_look(look++); };
    return coordinator::stand_by(own_, options, clock_);
  }

  FakeClock clock_;
  const std::shared_ptr<SessionStore> store_ = std::make_shared<SessionStore>();
  control::JobRecord coordinator_{store_};
  control::JobRecord own_{store_};
  std::vector<std::string> told_;
};

TEST_F(Standby, LeadsOnceNobodyElseHasForTheTimeOfTheCourtesy) {
  const Clock::Instant began = clock_.now();
  std::optional<Clock::Instant> ended;
  const std::optional<control::Lease> before = stand_by([&](int look) {
    if (look == 5) {
      store_->end_session();
      ended = clock_.now();
    }
    return look > 100;
  });
  ASSERT_TRUE(before);
  EXPECT_EQ(before->epoch, 1U);
  EXPECT_TRUE(own_.leads());
  EXPECT_FALSE(coordinator_.leads());
  ASSERT_TRUE(ended);
  EXPECT_GT(*ended, began);
  EXPECT_GE(clock_.now() - *ended, kCourtesy);
  EXPECT_LT(clock_.now() - *ended, kCourtesy + 1s);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("coordinates the job"), HasSubstr("nobody coordinates"),
                                 HasSubstr("has lost its lease")));
}

TEST_F(Standby, ACoordinatorThatComesBackInTimeGoesOn) {
  EXPECT_FALSE(stand_by([&](int look) {
    if (look % 3 == 1) store_->end_session();
    if (look % 3 == 0) coordinator_.keep_lead();
    return look > 100;
  }));
  EXPECT_TRUE(coordinator_.leads());
}

TEST_F(Standby, WhatWasSeenBeforeTheStoreFellSilentDoesNotCount) {
  store_->end_session();
  EXPECT_FALSE(stand_by([&](int look) {
    store_->silent = look % 3 == 2;  // two looks at a time are 0.6 s
    return look > 100;
  }));
  store_->silent = false;
  EXPECT_FALSE(own_.leads());
}

TEST_F(Standby, OneOfSeveralLeadsAndTheOthersGoOnWaiting) {
  store_->end_session();
  control::JobRecord faster(store_);
  const Clock::Instant began = clock_.now();
  EXPECT_FALSE(stand_by([&](int look) {
    // In the moment in which this one would.
    if (clock_.now() - began >= kCourtesy && !faster.leads()) faster.take_over({56, 78});
    return look > 20;
  }));
  EXPECT_TRUE(faster.leads());
}

TEST_F(Standby, EndsWithTheJob) {
  coordinator_.put_standing({.phase = control::JobPhase::kFinished});
  coordinator_.release();
  EXPECT_FALSE(stand_by([&](int look) { return look > 100; }));
  EXPECT_THAT(told_, ElementsAre("standing by: the job has finished"));
}

}  // namespace
}  // namespace muster::coordinator
