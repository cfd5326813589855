// Verdicts from views that are written down, and watches over a process that looks as told.
#include "muster/control/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "muster/control/process_watch.h"

namespace muster::control {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr auto kLiveness = 2s;
constexpr auto kPatience = 600s;

struct Case {
  const char* what;
  Seen seen;
  const char* reason;  // a part of it; empty: it is waited for
};

TEST(JudgeSilence, TellsTheStarvedFromTheLost) {
  const std::vector<Case> cases{
      {"heard of a moment ago", {.lasts = 1999ms, .stopped = 1999ms}, ""},
      {"stopped", {.lasts = 2s, .stopped = 1800ms}, "it is stopped"},
      {"stopped a moment ago, starved before", {.lasts = 9s, .stopped = 900ms}, ""},
      {"nothing keeps it from running", {.lasts = 2s, .idle = 1s}, "nothing keeps it from running"},
      {"one look at a moment when it slept", {.lasts = 5s, .idle = 0s}, ""},
      {"it wants to run and gets nothing", {.lasts = 599s}, ""},
      {"it gets a little", {.lasts = 599s, .given = 9s}, ""},
      {"it gets next to nothing for very long", {.lasts = 4000s, .given = 10ms}, ""},
      {"it gets nothing at all for very long", {.lasts = 600s}, "no processor time at all"},
      {"it had time enough", {.lasts = 11s, .given = 10s}, "given 10.0 s of processor time"},
  };
  for (const Case& one : cases) {
    const Judgement judgement = judge_silence(one.seen, kLiveness, kPatience);
    EXPECT_EQ(judgement.lost, *one.reason != 0) << one.what;
    EXPECT_THAT(judgement.reason, HasSubstr(one.reason)) << one.what;
    EXPECT_EQ(judgement.reason.empty(), !judgement.lost) << one.what;
  }
}

TEST(JudgeWork, TellsTheStarvedFromTheHung) {
  const std::vector<Case> cases{
      {"within its time", {.lasts = 9s, .idle = 9s, .given = 9s}, ""},
      {"an endless loop", {.lasts = 10s, .given = 5s}, "for 10 s without getting on"},
      {"a deadlock", {.lasts = 10s, .idle = 2s}, "for 10 s without getting on"},
      {"an endless loop that gets a tenth of a processor", {.lasts = 30s, .given = 2s}, ""},
      {"the same, later", {.lasts = 60s, .given = 5s}, "for 60 s"},
      {"it waits for a disk now and then", {.lasts = 30s, .idle = 1s, .given = 1s}, ""},
  };
  for (const Case& one : cases) {
    const Judgement judgement = judge_work(one.seen, 10s, kLiveness);
    EXPECT_EQ(judgement.lost, *one.reason != 0) << one.what;
    EXPECT_THAT(judgement.reason, HasSubstr(one.reason)) << one.what;
  }
}

TEST(JudgeStart, WaitsAsLongAsThereIsProgress) {
  EXPECT_FALSE(judge_start(599s, false, kPatience, kLiveness).lost);
  EXPECT_TRUE(judge_start(600s, false, kPatience, kLiveness).lost);
  EXPECT_THAT(judge_start(600s, false, kPatience, kLiveness).reason,
              HasSubstr("for 600 s it has neither computed nor read"));
}

TEST(JudgeStart, OneThatIsStoppedIsNotWaitedFor) {
  EXPECT_FALSE(judge_start(kLiveness - 1ms, true, kPatience, kLiveness).lost);
  EXPECT_TRUE(judge_start(kLiveness, true, kPatience, kLiveness).lost);
  EXPECT_THAT(judge_start(kLiveness, true, kPatience, kLiveness).reason, HasSubstr("is stopped"));
}

// A clock that is turned by hand, and a process that looks as told.
class ProcessWatchTest : public ::testing::Test {
 protected:
  Seen after(std::chrono::nanoseconds time) {
    clock_.advance(time);
    return watch_.look({7, 1}, since_);
  }

  FakeClock clock_;
  ProcessSigns signs_{.state = ProcessState::kRunning};
  ProcessWatch watch_{ProcessWatch::Idle::kSilent, 500ms, clock_, [this](const ProcessId&) { return signs_; }};
  Clock::Instant since_ = clock_.now();
};

TEST_F(ProcessWatchTest, AddsUpWhatItSeesInARow) {
  signs_.state = ProcessState::kStopped;
  EXPECT_EQ(after(100ms).stopped, 0ns) << "nobody knows since when";
  EXPECT_EQ(after(400ms).stopped, 400ms);
  EXPECT_EQ(after(200ms).stopped, 600ms);
  EXPECT_EQ(after(0ms).idle, 0ns) << "stopped is not idle";
  signs_.state = ProcessState::kRunning;
  EXPECT_EQ(after(200ms).stopped, 0ns);
  EXPECT_EQ(after(300ms).idle, 300ms);
  signs_.wants = true;
  EXPECT_EQ(after(300ms).idle, 0ns);
}

// After Ctrl-Z and fg of everything the watcher may be the first to run: an hour has passed, and it saw none of it.
TEST_F(ProcessWatchTest, ATimeInWhichItCouldNotLookHardlyCounts) {
  signs_.state = ProcessState::kStopped;
  after(100ms);
  EXPECT_EQ(after(1h).stopped, 500ms);
}

TEST_F(ProcessWatchTest, WhatAProcessWasGivenCountsFromTheFirstLookAtASilence) {
  signs_.processor = 50s;
  EXPECT_EQ(after(600ms).given, 0ns);
  signs_.processor = 51s;
  EXPECT_EQ(after(600ms).given, 1s);
  EXPECT_EQ(after(0ms).lasts, 1200ms);
  since_ = clock_.now();  // it was heard of
  EXPECT_EQ(after(600ms).given, 0ns);
  EXPECT_EQ(after(0ms).lasts, 600ms);
}

TEST_F(ProcessWatchTest, AHeartbeatIsNoWork) {
  ProcessWatch work{ProcessWatch::Idle::kWaiting, 500ms, clock_, [this](const ProcessId&) { return signs_; }};
  signs_.wants = true;
  work.look({7, 1}, since_);
  clock_.advance(400ms);
  EXPECT_EQ(work.look({7, 1}, since_).idle, 400ms);
  signs_.works = true;
  EXPECT_EQ(work.look({7, 1}, since_).idle, 0ns);
}

TEST(StartWatchTest, ProcessorTimeAndBytesAreProgress) {
  FakeClock clock;
  GroupWork work;
  StartWatch watch(clock, [&](pid_t) { return work; });
  const auto after = [&](std::chrono::nanoseconds time) {
    clock.advance(time);
    return watch.since_progress(7);
  };
  EXPECT_EQ(after(5s), 0ns) << "whoever is new begins now";
  EXPECT_EQ(after(500ms), 0ns) << "it looks once a second";
  EXPECT_EQ(after(500ms), 1s);
  EXPECT_EQ(after(1s), 2s);
  work.processor += 10ms;
  EXPECT_EQ(after(1s), 0ns);
  EXPECT_EQ(after(1s), 1s);
  work.bytes += 1;
  EXPECT_EQ(after(1s), 0ns);
  EXPECT_EQ(after(1h), 2s) << "it could not look";
  EXPECT_EQ(watch.since_progress(8), 0ns) << "another process";
}

}  // namespace
}  // namespace muster::control
