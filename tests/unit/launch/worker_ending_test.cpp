// A table of endings with verdict and reason.
#include "muster/launch/worker_ending.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

namespace muster::launch {
namespace {

using Verdict = EndingVerdict;

constexpr Ending kWell{};
constexpr Ending kFailed{.exit_code = 7};
constexpr Ending kKilled{.signal = SIGKILL};
constexpr Ending kUnknown{.unknown = true};
constexpr Ending kAsTold{.exit_code = 143};

struct Case {
  const char* what;
  EndingView view;
  Ending ending;
  Verdict verdict;
};

class JudgeEnding : public ::testing::TestWithParam<Case> {};

TEST_P(JudgeEnding, GivesVerdictAndReason) {
  const EndingJudgement judgement = judge_ending(GetParam().view, GetParam().ending);
  EXPECT_EQ(judgement.verdict, GetParam().verdict) << GetParam().what << ": " << judgement.reason;
  EXPECT_NE(judgement.reason, "");
}

INSTANTIATE_TEST_SUITE_P(
    Begins, JudgeEnding,
    ::testing::Values(
        Case{"the only one fails", {}, kFailed, Verdict::kHopeless},
        Case{"the founder fails while others wait for it", {}, kFailed, Verdict::kHopeless},
        Case{"the founder is killed", {}, kKilled, Verdict::kLost},
        Case{"a joiner fails while its founder lives", {.founder_lives = true}, kFailed, Verdict::kGaveUp},
        Case{"a joiner is killed", {.founder_lives = true}, kKilled, Verdict::kLost},
        Case{"a joiner is killed, as a shell says", {.founder_lives = true}, Ending{.exit_code = 137}, Verdict::kLost},
        Case{"a joiner fails after its founder was lost", {.founder_lost = true}, kFailed, Verdict::kLost},
        Case{"the same, and another one is in the founder's place",
             {.founder_lives = true, .founder_lost = true},
             kFailed,
             Verdict::kLost},
        Case{"one that was ready fails", {.ready = true}, kFailed, Verdict::kLost},
        Case{"one after another could not begin", {.hopeless = true}, kFailed, Verdict::kNothing},
        Case{"told to end before anybody trained", {.signal = SIGTERM}, kFailed, Verdict::kStopped}));

INSTANTIATE_TEST_SUITE_P(
    Trains, JudgeEnding,
    ::testing::Values(
        Case{"a member is done", {.member = true, .ready = true, .began = true}, kWell, Verdict::kFinished},
        Case{"a member is done and what it does then fails",
             {.member = true, .ready = true, .done = true, .began = true, .finishing = true},
             kFailed,
             Verdict::kStopped},
        Case{"one was refused", {.refused = true, .began = true, .others = true}, kFailed, Verdict::kRefused},
        Case{"one was refused and ended as if nothing were", {.refused = true}, kWell, Verdict::kRefused},
        Case{"one that was told to end has done its work and fails on the way out",
             {.member = true, .ready = true, .done = true, .began = true, .signal = SIGTERM},
             Ending{.signal = SIGABRT},
             Verdict::kStopped},
        Case{"a member is killed", {.member = true, .ready = true, .began = true}, kKilled, Verdict::kLost},
        Case{"the last member fails", {.member = true, .ready = true, .began = true}, kFailed, Verdict::kLost},
        Case{"one that was taken over is gone",
             {.member = true, .ready = true, .began = true},
             kUnknown,
             Verdict::kLost},
        Case{"one that was taken over is gone before it was ready", {.began = true}, kUnknown, Verdict::kLost},
        Case{"a replacement fails while others train", {.began = true, .others = true}, kFailed, Verdict::kLost},
        Case{"a replacement fails while nobody trains", {.began = true}, kFailed, Verdict::kHopeless},
        Case{"one too many", {.evicted = true, .member = true, .began = true}, kKilled, Verdict::kNothing},
        Case{"one of a fixed group fails", {.fixed = true}, kFailed, Verdict::kBroken},
        Case{"one of a fixed group fails when another is done",
             {.finishing = true, .fixed = true},
             kFailed,
             Verdict::kBroken},
        Case{"one fails when another is done",
             {.member = true, .began = true, .finishing = true},
             kFailed,
             Verdict::kNothing}));

INSTANTIATE_TEST_SUITE_P(
    Stops, JudgeEnding,
    ::testing::Values(
        Case{"a member ends as told", {.member = true, .began = true, .signal = SIGTERM}, kAsTold, Verdict::kStopped},
        Case{"a member dies of it",
             {.member = true, .began = true, .signal = SIGTERM},
             {.signal = SIGTERM},
             Verdict::kStopped},
        Case{"a member is killed by somebody else",
             {.member = true, .began = true, .signal = SIGTERM},
             kKilled,
             Verdict::kLost},
        Case{"a newcomer dies of it", {.began = true, .signal = SIGTERM}, {.signal = SIGTERM}, Verdict::kNothing},
        Case{"at once", {.began = true, .signal = SIGKILL}, kKilled, Verdict::kStopped},
        Case{"a member has stopped with those of other hosts, before anybody here was told",
             {.member = true, .ready = true, .done = true, .began = true, .others = true},
             kAsTold,
             Verdict::kStopped},
        Case{"a member dies of a signal that nobody passed on, as a shell says",
             {.member = true, .ready = true, .began = true, .others = true},
             kAsTold,
             Verdict::kLost},
        Case{"a member is done before it hears of it",
             {.member = true, .began = true, .signal = SIGTERM},
             kWell,
             Verdict::kFinished}));

}  // namespace
}  // namespace muster::launch
