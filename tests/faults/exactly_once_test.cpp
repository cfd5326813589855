// The ledger of real training runs, whose workers die in the worst moments: muster ledger check proves every sample.
#include <signal.h>

#include <array>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::train_arguments;

constexpr int kSteps = 16;

class ExactlyOnce : public ::testing::Test {
 protected:
  ExactlyOnce() { testing::spill(folder_ / "job.toml", job({"parallel.claims=\"static\""})); }

  static std::string job(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"job.ledger=true", "checkpoint.every_steps=3"});
    return testing::small_job("counted", more);
  }

  // Trains with these rules for failpoints.
  Finished train(int workers, const std::vector<std::string>& more = {}, const std::string& rules = {}) {
    const testing::Failpoints armed(rules);
    return run_program(folder_.path(), train_arguments(workers, more));
  }
  // One worker, and the end of everything where it stops itself.
  void train_until(const std::string& stop, std::vector<std::string> more = {}) {
    const testing::Failpoints armed(stop);
    more.emplace_back("parallel.liveness_seconds=600");
    Program program(folder_.path(), train_arguments(1, more));
    ASSERT_EQ(testing::kill_everything_when_one_stops(program).signal, SIGKILL);
  }
  Finished check(const std::string& runs) {
    return run_program(folder_.path(), {"ledger", "check", "counted", "--runs", runs, "--json"});
  }
  Json expect_exact(const std::string& runs, int steps = kSteps) {
    const Finished result = check(runs);
    EXPECT_EQ(result.exit_code, 0) << runs << ": " << result.out << result.err;
    if (result.out.empty()) return {};
    Json report = rows(result.out).back();
    EXPECT_EQ(report.at("exact"), true) << runs;
    EXPECT_EQ(report.at("steps"), steps) << runs;
    EXPECT_EQ(report.at("whole_epochs"), steps / 8) << runs;
    EXPECT_EQ(report.at("epoch_samples"), 500) << runs;
    return report;
  }
  std::filesystem::path ledger(const std::string& runs) const {
    for (const auto& run : std::filesystem::directory_iterator(folder_ / runs))
      return run.path() / "ledger";
    return {};
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ExactlyOnce, EveryStrategyKeepsALedger) {
  for (const int workers : {1, 3}) {
    const std::string runs = fmt::format("shared-{}", workers);
    const Finished result = train(workers, {"job.runs=" + runs});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json report = expect_exact(runs);
    EXPECT_EQ(report.at("files"), workers);
    EXPECT_EQ(report.at("lanes"), kSteps * 4);
    EXPECT_EQ(report.at("unclosed_files"), 0);
  }
  testing::spill(folder_ / "job.toml", job());  // lanes are nobody's to claim there
  for (const char* strategy : {"all_reduce", "local_sgd"}) {
    const std::string runs = strategy;
    std::vector<std::string> chosen{fmt::format("parallel.strategy={}", strategy), "job.runs=" + runs};
    if (runs == "local_sgd") chosen.emplace_back("parallel.period=3");
    const auto and_also = [&](const char* more) {
      std::vector<std::string> all = chosen;
      all.emplace_back(more);
      return all;
    };
    const Finished result = train(2, and_also("job.epochs=1"));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    expect_exact(runs, 8);
    const Finished resumed = train(2, and_also("--resume"));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(expect_exact(runs).at("resumptions"), 1);
  }
}

TEST_F(ExactlyOnce, ADoctoredLedgerIsRefused) {
  ASSERT_EQ(train(2).exit_code, 0);
  expect_exact("runs");
  const std::filesystem::path victim = ledger("runs") / "worker-001-0000.ledger";
  const std::string honest = testing::slurp(victim);
  std::string doctored = honest;
  doctored[honest.size() / 2] = static_cast<char>(doctored[honest.size() / 2] ^ 1);
  testing::spill(victim, doctored);
  const Finished altered = check("runs");
  EXPECT_EQ(altered.exit_code, 1);
  EXPECT_THAT(altered.out, HasSubstr("worker-001-0000.ledger: record"));
  testing::spill(victim, honest);
  expect_exact("runs");
  std::filesystem::remove(victim);
  const Finished missing = check("runs");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.out, HasSubstr("nobody has recorded it"));
}

// Around everything that makes a lane or a step count, and around the record itself.
TEST_F(ExactlyOnce, DeathsAtTheWorstMomentsLoseNoSample) {
  const std::vector<std::array<const char*, 3>> runs{
      {"arena.finish.before", "arena.commit.before_flip", "ledger.append.after_write"},
      {"arena.finish.after", "arena.commit.after_flip", "ledger.append.before_write"}};
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::string rules =
        fmt::format("{}=kill@rank=2,attempt=0;{}=kill@rank=1,step=7,attempt=0;{}=kill@rank=0,step=11,attempt=0",
                    runs[run][0], runs[run][1], runs[run][2]);
    const std::string name = fmt::format("run-{}", run);
    const Finished result = train(3, {"job.runs=" + name}, rules);
    ASSERT_EQ(result.exit_code, 0) << rules << "\n" << result.err;
    const Json report = expect_exact(name);
    EXPECT_GE(report.at("unclosed_files"), 3) << rules;
    EXPECT_EQ(report.at("void_records"), 0) << rules;
  }
}

TEST_F(ExactlyOnce, ACommitThatNobodyLivedToRecordIsRecordedByThoseWhoCome) {
  for (const int step : {5, kSteps - 1}) {
    const std::string runs = fmt::format("step-{}", step);
    const Finished result =
        train(2, {"job.runs=" + runs}, fmt::format("ledger.commit.before_write=kill@step={},attempt=0", step));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(expect_exact(runs).at("unclosed_files"), 2);
  }
}

TEST_F(ExactlyOnce, WhatIsDoneAgainAfterAResumptionCountsOnce) {
  // Five records a step: the first death comes before the first checkpoint, the second in the middle of a step.
  train_until("ledger.append.after_write=stop@step=1,call=3");
  expect_exact("runs", 1);
  train_until("ledger.append.after_write=stop@step=9,call=3", {"--resume"});
  expect_exact("runs", 9);
  const Finished third = train(1, {"--resume"});
  ASSERT_EQ(third.exit_code, 0) << third.err;
  const Json report = expect_exact("runs");
  EXPECT_EQ(report.at("resumptions"), 2);
  EXPECT_GT(report.at("void_records"), 9);
}

TEST_F(ExactlyOnce, AJobWhoseProcessesAreAllKilledGoesOnWithItsLedger) {
  const std::vector<std::string> longer{"job.epochs=60"};
  const std::string epoch = "\"epoch\":";
  int told = 0;  // the last one before a death
  for (int kill = 0; kill < 2; ++kill) {
    const testing::Failpoints slow("arena.commit.before_flip=delay=5");  // else it ends before it is killed
    Program program(folder_.path(),
                    train_arguments(3, kill == 0 ? longer : std::vector<std::string>{longer[0], "--resume"}));
    testing::wait_until_printed(program, fmt::format("{}{}", epoch, told + 3));
    const Finished killed = testing::kill_everything(program);
    ASSERT_EQ(killed.signal, SIGKILL);
    const std::size_t last = killed.out.rfind(epoch);
    ASSERT_NE(last, std::string::npos) << killed.err;
    told = std::atoi(killed.out.c_str() + last + epoch.size());
  }
  const Finished result = train(2, {longer[0], "--resume"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(expect_exact("runs", 8 * 60).at("resumptions"), 2);
}

TEST_F(ExactlyOnce, ALedgerCannotBeginInTheMiddleOfARun) {
  ASSERT_EQ(train(1, {"job.ledger=false", "job.epochs=1"}).exit_code, 0);
  const Finished result = train(1, {"--resume"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("job.ledger"));
}

}  // namespace
}  // namespace muster
