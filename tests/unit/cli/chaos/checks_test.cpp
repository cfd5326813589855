// Each invariant holds for honest observations, and fails for observations in which just that is wrong.
#include "muster/cli/chaos/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/cli/chaos/report.h"
#include "muster/cli/chaos/throughput.h"

namespace muster::cli {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

// A worker is killed at 10 s and replaced 2 s later; one is stopped at 20 s, killed at 22 s and replaced at 24 s; one
// is stopped at 30 s and woken a second later. A step takes 0.1 s, and one look at the job is made in each.
Observations honest() {
  Observations seen;
  std::uint64_t step = 100;
  for (int look = 0; look <= 400; ++look) {
    const double at = look * 0.1;
    const bool waits = (look > 200 && look < 220) || (look > 300 && look < 310);
    if (!waits) ++step;
    const std::uint64_t generation = at < 10 ? 1 : at < 12 ? 2 : at < 22 ? 3 : 4;
    seen.samples.push_back({at, true, step, generation, 1});
  }
  seen.faults = {{.fault = Fault::kKill, .at = 10, .rank = 0, .victim = {11, 1}, .gone = 10.1, .replaced = 12.1},
                 {.fault = Fault::kStop, .at = 20, .rank = 1, .victim = {12, 1}, .gone = 22, .replaced = 24},
                 {.fault = Fault::kStop, .at = 30, .rank = 0, .victim = {13, 1}, .continued = 31}};
  seen.metric_steps = {110, 120, 120, 300};
  seen.liveness = 2;
  seen.step_seconds = 0.1;
  seen.over = seen.ended_well = true;
  seen.end = "finished at step 470";
  seen.acknowledged = 400;
  seen.newest = StoredWeights{step, "abc"};
  seen.reference = seen.newest;
  seen.ledger.emplace().steps = step;
  seen.leftovers.emplace();
  return seen;
}

TEST(ChaosChecksTest, AWorkerThatWasWokenInTimeMayNotGoUnlessTheJobWasToldToStop) {
  Observations seen = honest();
  seen.faults.back().gone = 32;
  EXPECT_EQ(check_progress(seen).verdict, Verdict::kFailed);
  seen.told_to_stop = 32.5;
  EXPECT_EQ(check_progress(seen).verdict, Verdict::kFailed) << "it went before";
  seen.told_to_stop = 31.9;
  EXPECT_EQ(check_progress(seen).verdict, Verdict::kPass);
}

TEST(ChaosChecksTest, AnHonestJobPasses) {
  for (const Finding& finding : check_invariants(honest())) {
    EXPECT_EQ(finding.verdict, finding.name == "I2" ? Verdict::kNotChecked : Verdict::kPass) << finding.reason;
    EXPECT_FALSE(finding.reason.empty()) << finding.name;
  }
}

// The names of the invariants that fail once `spoil` has been at the observations.
template <typename Spoil>
std::string failures(const Spoil& spoil) {
  Observations seen = honest();
  spoil(seen);
  std::string names;
  for (const Finding& finding : check_invariants(seen))
    if (finding.verdict == Verdict::kFailed) names += finding.name + " ";
  return names;
}

TEST(ChaosChecksTest, AJobThatFailedFails) {
  EXPECT_EQ(failures([](Observations& seen) { seen.ended_well = false; }), "end ");
}

TEST(ChaosChecksTest, I1FailsWithTheLedger) {
  EXPECT_EQ(failures([](Observations& seen) { seen.ledger->violation = "sample 7 twice"; }), "I1 ");
  Observations seen = honest();
  seen.ledger.reset();
  EXPECT_EQ(check_ledger_exact(seen).verdict, Verdict::kNotChecked);
  EXPECT_EQ(check_ledger_exact(seen).reason, "job.ledger is off");
}

TEST(ChaosChecksTest, I3ComparesStepAndWeights) {
  EXPECT_EQ(failures([](Observations& seen) { seen.reference->hash = "abd"; }), "I3 ");
  EXPECT_EQ(failures([](Observations& seen) { --seen.reference->step; }), "I3 ");
  EXPECT_EQ(failures([](Observations& seen) { seen.reference.reset(); }), "") << "nobody asked for one";
  EXPECT_EQ(failures([](Observations& seen) {
              seen.reference.reset();
              seen.reference_wanted = true;
            }),
            "I3 ");
}

TEST(ChaosChecksTest, I4FailsWhenAnythingGoesBack) {
  EXPECT_EQ(failures([](Observations& seen) { --seen.samples[50].step; }), "") << "equal to the one before";
  EXPECT_EQ(failures([](Observations& seen) { seen.samples[50].step -= 2; }), "I4 ");
  EXPECT_EQ(failures([](Observations& seen) { seen.samples[150].generation = 1; }), "I4 ");
  EXPECT_EQ(failures([](Observations& seen) { seen.samples[50].token = 2; }), "I4 ");
  EXPECT_EQ(failures([](Observations& seen) { seen.metric_steps.push_back(299); }), "I4 ");
  EXPECT_EQ(failures([](Observations& seen) {
              seen.samples[50].live = false;  // then the record speaks, which may be behind
              seen.samples[50].step = 1;
              seen.samples[50].generation = 0;
            }),
            "");
  EXPECT_EQ(failures([](Observations& seen) {
              for (std::size_t i = 50; i < seen.samples.size(); ++i)
                seen.samples[i].token = 2;  // another coordinator took over
            }),
            "");
}

TEST(ChaosChecksTest, I5FailsForACheckpointThatIsLostOrDamaged) {
  EXPECT_EQ(failures([](Observations& seen) { seen.acknowledged = seen.newest->step + 1; }), "I5 ");
  EXPECT_EQ(failures([](Observations& seen) { seen.rejected = {"step-000000000999: hash differs"}; }), "I5 ");
  EXPECT_EQ(failures([](Observations& seen) { seen.newest.reset(); }), "I3 I5 ");
  Observations seen = honest();
  seen.newest.reset();
  seen.acknowledged.reset();
  EXPECT_EQ(check_checkpoint(seen).verdict, Verdict::kNotChecked) << "none was promised";
}

// Moves everything after that look to `by` seconds later.
void pause(Observations& seen, std::size_t look, double by) {
  for (std::size_t i = look + 1; i < seen.samples.size(); ++i)
    seen.samples[i].at += by;
}

TEST(ChaosChecksTest, I6FailsWhenNothingIsCommittedForTooLong) {
  // 2 s to find it, 2 start-ups of 2 s, 10 steps, 2 s.
  EXPECT_THAT(longest_pause_allowed(honest()), DoubleNear(9, 1e-9));
  EXPECT_EQ(failures([](Observations& seen) { pause(seen, 350, 8.8); }), "");
  EXPECT_EQ(failures([](Observations& seen) { pause(seen, 350, 9.1); }), "I6 ");
  EXPECT_EQ(failures([](Observations& seen) {
              pause(seen, 350, 9.1);
              seen.validated_steps.insert(seen.samples[350].step);
            }),
            "")
      << "while it validates nothing is committed";
  EXPECT_EQ(failures([](Observations& seen) {
              for (std::size_t i = 200; i < seen.samples.size(); ++i)
                seen.samples[i].live = false;
            }),
            "I6 ")
      << "a coordinator that never came back";
}

// A machine that has much else to do is slow in everything.
TEST(ChaosChecksTest, I6AllowsMoreWhereStepsTakeLongerAndStartUpsToo) {
  Observations seen = honest();
  seen.step_seconds = 0.05;
  EXPECT_THAT(longest_pause_allowed(seen), DoubleNear(2 * (2 + 0.5 + 2) + 4, 1e-6));
  seen.faults[1].replaced = 25;
  EXPECT_THAT(longest_pause_allowed(seen), DoubleNear(2 * (2 + 0.5 + 2) + 6, 1e-6));
  seen.step_seconds = 10;
  EXPECT_THAT(longest_pause_allowed(seen), DoubleNear(2 + 100 + 2 + 6, 1e-6)) << "never less";
}

TEST(ChaosChecksTest, I6FailsWhenAStoppedWorkerIsLeftOrOneThatWasWokenIsKilled) {
  EXPECT_EQ(failures([](Observations& seen) { seen.faults[1].gone = 30; }), "I6 ");
  EXPECT_EQ(failures([](Observations& seen) { seen.faults[2].gone = 31.5; }), "I6 ");
  EXPECT_EQ(failures([](Observations& seen) {
              seen.faults[2].gone = 31.5;
              seen.faults[2].hit_again = true;
            }),
            "")
      << "another fault did it";
}

TEST(ChaosChecksTest, I7FailsForWhatIsLeft) {
  EXPECT_EQ(failures([](Observations& seen) { seen.leftovers->push_back("process 7"); }), "I7 ");
  Observations seen = honest();
  seen.leftovers = std::vector<std::string>(7, "socket @muster-1");
  EXPECT_THAT(check_leftovers(seen).reason, HasSubstr("and 2 more"));
  seen.leftovers.reset();
  EXPECT_EQ(check_leftovers(seen).verdict, Verdict::kNotChecked);
}

// Three hosts, of which one is killed at 20 s, given up 2 s later and back at 30 s; one is frozen briefly at 35 s.
Observations honest_hosts() {
  Observations seen = honest();
  seen.hosts = 3;
  seen.faults = {
      {.fault = Fault::kHost, .at = 20, .continued = 25, .replaced = 30, .whom = "host-1 is killed", .commit = 22.1},
      {.fault = Fault::kFreeze,
       .at = 35,
       .continued = 35.8,
       .replaced = 36,
       .whom = "host-2 stands still",
       .commit = 35.9,
       .brief = true}};
  for (const char* host : {"host-0", "host-1", "host-2"})
    seen.copies.push_back({host, *seen.newest});
  seen.parts = 1;
  return seen;
}

template <typename Spoil>
std::string host_failures(const Spoil& spoil) {
  Observations seen = honest_hosts();
  spoil(seen);
  std::string names;
  for (const Finding& finding : check_invariants(seen))
    if (finding.verdict == Verdict::kFailed) names += finding.name + " ";
  return names;
}

TEST(ChaosHostChecksTest, HonestHostsPass) {
  for (const Finding& finding : check_invariants(honest_hosts()))
    EXPECT_EQ(finding.verdict, Verdict::kPass) << finding.name << ": " << finding.reason;
}

TEST(ChaosHostChecksTest, I2FailsWhenHostsDiffer) {
  EXPECT_EQ(host_failures([](Observations& seen) { seen.copies[1].weights.hash = "abd"; }), "I2 ");
  EXPECT_EQ(host_failures([](Observations& seen) { --seen.copies[2].weights.step; }), "I2 ");
  Observations seen = honest_hosts();
  seen.copies.clear();
  EXPECT_EQ(check_copies(seen).verdict, Verdict::kNotChecked);
}

TEST(ChaosHostChecksTest, TheNextCommitIsTheOneBehindTheLongestPauseOfTheFault) {
  const std::vector<ChaosSample> samples = honest().samples;  // nothing from 20 s to 22 s, nor from 30 s to 31 s
  EXPECT_THAT(next_commit(samples, 19.5).value(), DoubleNear(22, 1e-6)) << "what was seen then was old";
  EXPECT_THAT(next_commit(samples, 20.5).value(), DoubleNear(22, 1e-6));
  EXPECT_THAT(next_commit(samples, 30.2).value(), DoubleNear(31, 1e-6));
  EXPECT_LT(next_commit(samples, 12).value(), 13.2) << "nothing stood still";
  EXPECT_FALSE(next_commit(samples, 45)) << "nothing was seen after that";
  EXPECT_FALSE(next_commit({}, 1));
}

TEST(ChaosHostChecksTest, I6FailsForACommitThatComesLateAndForAHostThatDoesNotComeBack) {
  // 2 s to give it up, 10 steps, 2 s.
  EXPECT_THAT(commit_allowed(honest_hosts(), honest_hosts().faults[0]), DoubleNear(5, 1e-6));
  EXPECT_EQ(host_failures([](Observations& seen) { seen.faults[0].commit = 24.9; }), "");
  EXPECT_EQ(host_failures([](Observations& seen) { seen.faults[0].commit = 25.1; }), "I6 ");
  EXPECT_EQ(host_failures([](Observations& seen) {
              seen.faults[0].commit = 27;
              seen.faults[0].hopeless = 3;
            }),
            "")
      << "who coordinates stood still";
  EXPECT_EQ(host_failures([](Observations& seen) { seen.faults[0].commit.reset(); }), "I6 ");
  EXPECT_EQ(host_failures([](Observations& seen) { seen.faults[0].replaced.reset(); }), "I6 ");
  EXPECT_EQ(host_failures([](Observations& seen) { seen.faults[1].given_up = true; }), "I6 ");
  EXPECT_EQ(host_failures([](Observations& seen) { seen.faults[0].given_up = true; }), "") << "it was away for long";
}

TEST(ChaosHostChecksTest, APartThatWentOnAndAnAgentThatEndedFail) {
  EXPECT_EQ(host_failures([](Observations& seen) { seen.went_on.push_back("host-1"); }), "cut ");
  EXPECT_EQ(host_failures([](Observations& seen) { seen.deserters.push_back("the agent of host-1"); }), "end ");
  Observations seen = honest_hosts();
  seen.parts = 0;
  EXPECT_EQ(check_parts(seen).verdict, Verdict::kNotChecked);
}

TEST(ChaosHostChecksTest, TheReportHasTheTimesOfEveryFault) {
  ChaosReport report;
  report.hosts = 3;
  report.faults = honest_hosts().faults;
  report.findings = check_invariants(honest_hosts());
  EXPECT_THAT(to_text(report), HasSubstr("host-1 is killed: 2.1 s to the next commit"));
  EXPECT_EQ(to_json(report).at("faults").at("host"), 1);
  EXPECT_EQ(to_json(report).at("seconds_to_commit").size(), 2U);
  EXPECT_TRUE(report.good());
}

TEST(ChaosThroughputTest, TheIdealPaysForDetectionAndForStartUp) {
  const Observations seen = honest();
  const auto made = throughput(seen.samples, seen.faults, 5, 40, 10, 2, 2);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->seconds, DoubleNear(35, 1e-6));
  EXPECT_THAT(made->detection_seconds, DoubleNear(2 + 1, 1e-9));   // until it was killed; until it was woken
  EXPECT_THAT(made->start_up_seconds, DoubleNear(4.0 / 2, 1e-9));  // 2 s each, of one worker of two
  EXPECT_THAT(made->ideal_steps, DoubleNear(300, 1e-6));
  EXPECT_THAT(made->steps, DoubleNear(350 - 28, 1e-9));  // two pauses, of 19 and 9 looks
  EXPECT_THAT(made->share, DoubleNear(322.0 / 300, 1e-6));
}

TEST(ChaosThroughputTest, FaultsAtTheEndCostNoMoreThanTheTimeThatWasLeft) {
  std::vector<MadeFault> faults{{.fault = Fault::kStop, .at = 39.5, .rank = 0},
                                {.fault = Fault::kKill, .at = 39, .rank = 1, .gone = 39},
                                {.fault = Fault::kCoordinator, .at = 12}};
  const auto made = throughput(honest().samples, faults, 5, 40, 10, 2, 4);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->detection_seconds, DoubleNear(0.5, 1e-9));
  EXPECT_THAT(made->start_up_seconds, DoubleNear(0.25, 1e-9));
}

TEST(ChaosThroughputTest, WithoutARateOrTimeThereIsNoShare) {
  EXPECT_FALSE(throughput(honest().samples, {}, 5, 40, 0, 2, 2));
  EXPECT_FALSE(throughput(honest().samples, {}, 50, 60, 10, 2, 2));
  EXPECT_FALSE(throughput({}, {}, 5, 40, 10, 2, 2));
  EXPECT_THAT(step_rate(honest().samples, 1, 9), DoubleNear(10, 1e-6));
  EXPECT_EQ(step_rate({}, 0, 1), 0);
}

TEST(ChaosReportTest, AFailureOrAMissedGoalIsNotGood) {
  ChaosReport report;
  report.findings = check_invariants(honest());
  EXPECT_TRUE(report.good());
  report.throughput.emplace().share = 0.85;
  EXPECT_TRUE(report.good()) << "no goal";
  report.goal = 0.9;
  EXPECT_FALSE(report.good());
  report.goal = 0.8;
  EXPECT_TRUE(report.good());
  report.findings[3].verdict = Verdict::kFailed;
  EXPECT_FALSE(report.good());
  EXPECT_THAT(to_text(report), HasSubstr("I3  FAILED"));
  EXPECT_EQ(to_json(report).at("invariants")[3].at("verdict"), "FAILED");
  EXPECT_EQ(to_json(report).at("good"), false);
}

}  // namespace
}  // namespace muster::cli
