// Workers that die or hang while they train: the others go on, others take their place, and the result is the same.
#include <signal.h>

#include <array>
#include <chrono>
#include <regex>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "muster/base/random.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::children_of;
using testing::expect_same_end;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::train_arguments;
using testing::wait_until_printed;

// A run of hundreds of steps and many checkpoints, on a machine and a disk that others use, too.
constexpr std::chrono::seconds kLongest{300};

class Recovery : public ::testing::Test {
 protected:
  Recovery() { testing::spill(folder_ / "job.toml", testing::stateful_job("hurt", {"checkpoint.every_steps=3"})); }

  // What a run that nobody touches ends with.
  Json undisturbed(const std::vector<std::string>& more = {}) {
    const Finished result = Program(folder_.path(), train_arguments(1, more)).wait(kLongest);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return rows(result.out).back();
  }
  // Nothing of a checkpoint whose writer was lost.
  void expect_nothing_hidden(const std::string& runs) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / runs))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
  // The rows of the validations of the only run there.
  std::vector<Json> validations(const std::string& runs) const {
    std::vector<Json> found;
    for (const auto& run : std::filesystem::directory_iterator(folder_ / runs))
      for (const Json& row : rows(testing::slurp(run.path() / "metrics.jsonl")))
        if (row.at("event") == "validation") found.push_back(row);
    return found;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Recovery, TheOnlyWorkerIsReplacedAndLosesNoStep) {
  const Json expected = undisturbed({"job.runs=undisturbed"});
  const testing::Failpoints armed(
      "arena.finish.after=kill@step=3,attempt=0;arena.commit.before_flip=kill@step=5,attempt=1;"
      "roster.note.before_write=kill@step=8,attempt=2");
  const Finished result = run_program(folder_.path(), train_arguments(1));
  expect_same_end(result, expected, "one worker, three deaths");
  EXPECT_THAT(result.err, HasSubstr("worker 0 ")) << "it was not killed";
  expect_nothing_hidden("runs");
}

// The stores of a step that others see, for the leader and for another worker, in the middle of an epoch and where it
// ends. `attempt=0`: the process that takes its place is left alone.
TEST_F(Recovery, ADeathAtAnyPointOfAStepChangesNothing) {
  const Json expected = undisturbed();
  // Three in a run: two workers, then the leader, which alone writes notes.
  const std::vector<std::array<const char*, 3>> runs{
      {"arena.claim.after", "arena.arrive.before", "arena.commit.before_arrival"},
      {"arena.start.after", "arena.arrive.after", "roster.note.before_write"},
      {"arena.finish.before", "arena.commit.after_arrival", "roster.note.before_publish"},
      {"arena.finish.after", "arena.commit.after_flip", "arena.commit.before_flip"}};
  for (const auto& points : runs) {
    const std::string rules = fmt::format(
        "{}=kill@rank=2,step=3,attempt=0;{}=kill@rank=1,step=5,attempt=0;"
        "{}=kill@rank=0,step=8,attempt=0",
        points[0], points[1], points[2]);
    const testing::Failpoints armed(rules);
    const Finished result = run_program(folder_.path(), train_arguments(4, {"parallel.claims=static"}));
    for (const int rank : {0, 1, 2})
      EXPECT_THAT(result.err, HasSubstr(fmt::format("worker {} ", rank))) << rules << ": it was not killed";
    expect_same_end(result, expected, rules);
  }
}

// The processes that the supervisor has told of as lost.
std::set<pid_t> lost_in(const std::string& err) {
  static const std::regex kLine("worker [0-9]+ \\(pid ([0-9]+)\\) is lost");
  std::set<pid_t> lost;
  for (std::sregex_iterator found(err.begin(), err.end(), kLine), end; found != end; ++found)
    lost.insert(std::stoi((*found)[1]));
  return lost;
}

TEST_F(Recovery, KillsAtAnyMomentChangeNothingAndLeaveTheOthersAlone) {
  const Json expected = undisturbed({"job.epochs=30"});
  // Lanes that take their time, however fast the machine is: the job lasts longer than the kills.
  const testing::Failpoints slow("arena.start.after=delay=10");
  RandomStream random({.seed = 2026});
  for (int run = 0; run < 3; ++run) {
    Program program(folder_.path(), train_arguments(3, {"job.epochs=30", fmt::format("job.runs=run-{}", run)}));
    wait_until_printed(program, fmt::format("run-{}", run));
    std::set<pid_t> victims;
    for (int kill = 0; kill < 3; ++kill) {
      // sleeps: the kill falls anywhere in the run; not at once after another, for a lane that kills two ends a job
      system_clock().sleep_for(std::chrono::milliseconds(150 + random.below(600)));
      const std::vector<pid_t> workers = children_of(program.pid());
      if (workers.empty()) break;
      const pid_t victim = workers[random.below(workers.size())];
      ::kill(victim, SIGKILL);
      victims.insert(victim);
    }
    const Finished result = program.wait(kLongest);
    expect_same_end(result, expected, fmt::format("run {}", run));
    const std::set<pid_t> lost = lost_in(result.err);
    EXPECT_THAT(victims, ::testing::IsSupersetOf(lost)) << "somebody else is gone\n" << result.err;
    // A kill may come while a worker is replaced already, or find another one dead; not all three of a run.
    EXPECT_THAT(lost, ::testing::Not(::testing::IsEmpty())) << "run " << run << ": nobody was hit\n" << result.err;
  }
}

// The others wait for the last checkpoint when its writer dies in the middle of it.
TEST_F(Recovery, ACheckpointThatALostLeaderHadBegunIsWrittenAgainAndNothingIsLeftOfIt) {
  const std::vector<std::string> rarely{"checkpoint.every_steps=1000", "job.runs=torn"};
  const Json expected = undisturbed({rarely[0]});
  const testing::Failpoints armed("checkpoint.tensors_written=delay=500@call=2;checkpoint.tensors_written=kill@call=3");
  const Finished result = run_program(folder_.path(), train_arguments(2, rarely));
  EXPECT_THAT(result.err, HasSubstr("is lost")) << "it was not killed";
  expect_same_end(result, expected, "a torn checkpoint");
  expect_nothing_hidden("torn");
}

// The last checkpoint of the first leader failed and it is lost when all is done; the second is lost while it writes
// that checkpoint again. The third has looked into the folder before, as everybody does in the end.
TEST_F(Recovery, ACheckpointThatTwoLeadersCouldNotWriteIsWrittenByTheThirdAndNothingIsLeftOfIt) {
  const std::vector<std::string> rarely{"checkpoint.every_steps=1000", "job.runs=torn"};
  const Json expected = undisturbed({rarely[0]});
  const testing::Failpoints armed(
      "checkpoint.tensors_written=error@rank=0,call=3;"
      "roster.note.before_write=delay=1000@rank=0,step=15,call=2;"
      "roster.note.before_publish=kill@rank=0,step=15,call=2;"
      "checkpoint.tensors_written=kill@rank=1,attempt=0");
  const Finished result = run_program(folder_.path(), train_arguments(3, rarely));
  for (const int rank : {0, 1})
    EXPECT_THAT(result.err, HasSubstr(fmt::format("worker {} ", rank))) << "it was not killed";
  expect_same_end(result, expected, "a checkpoint that was torn twice");
  EXPECT_TRUE(std::filesystem::exists(folder_ / rows(result.out).back().at("checkpoint").get<std::string>()));
  expect_nothing_hidden("torn");
}

TEST_F(Recovery, TheStateOutlivesAllWorkers) {
  const std::vector<std::string> longer{"job.epochs=60"};
  const Json expected = undisturbed(longer);
  Program program(folder_.path(), train_arguments(2, {"job.epochs=60", "job.runs=all"}));
  wait_until_printed(program, "all/hurt");  // the file still has what the run before printed
  wait_until_printed(program, "\"validation\"");
  for (const pid_t worker : children_of(program.pid()))
    ::kill(worker, SIGKILL);
  const Finished result = program.wait();
  expect_same_end(result, expected, "all workers killed");
  // No step was done twice: the run's rows never go back.
  std::uint64_t last = 0;
  for (const auto& run : std::filesystem::directory_iterator(folder_ / "all")) {
    for (const Json& row : rows(testing::slurp(run.path() / "metrics.jsonl"))) {
      if (row.at("event") != "step") continue;
      EXPECT_GT(row.at("step").get<std::uint64_t>(), last);
      last = row.at("step").get<std::uint64_t>();
    }
  }
  EXPECT_EQ(last, expected.at("step").get<std::uint64_t>());
}

// It alone has read the checkpoint: what that says beside the weights is known to the others too.
TEST_F(Recovery, AFounderThatIsLostBeforeItHasMetTheOthersTakesNothingOfTheCheckpointWithIt) {
  const std::vector<std::string> longer{"data.samples=3000"};
  {
    const testing::Failpoints slow("arena.commit.before_flip=delay=50");  // else the first epoch ends before that
    Program program(folder_.path(), train_arguments(2, longer));
    wait_until_printed(program, "\"checkpoint\"");
    testing::kill_everything(program);
  }
  std::filesystem::copy(folder_ / "runs", folder_ / "calm", std::filesystem::copy_options::recursive);
  const auto resume = [&](const std::string& runs) {
    const Finished result =
        run_program(folder_.path(), train_arguments(2, {longer[0], "job.runs=" + runs, "--resume"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  };
  const Json start = rows(resume("calm").out).front();
  ASSERT_LT(start.at("first_step").get<int>(), start.at("total_steps").get<int>() / 2) << "not inside the first epoch";
  const testing::Failpoints armed("roster.enter.after_arrival=kill@rank=0,attempt=0");
  EXPECT_THAT(resume("runs").err, HasSubstr("worker 0 ")) << "it was not killed";
  EXPECT_EQ(validations("runs"), validations("calm"));
}

// Nothing is made twice either.
TEST_F(Recovery, AFounderOfANewRunThatIsLostBeforeItHasMetTheOthersLeavesOneFolder) {
  const testing::Failpoints armed("roster.enter.after_arrival=kill@rank=0,attempt=0");
  const Finished result = run_program(folder_.path(), train_arguments(2));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("worker 0 ")) << "it was not killed";
  const std::filesystem::directory_iterator runs(folder_ / "runs");
  EXPECT_EQ(std::distance(begin(runs), end(runs)), 1);
}

TEST_F(Recovery, AWorkerThatGivesNoSignOfLifeIsKilledAndReplaced) {
  const std::vector<std::string> longer{"job.epochs=30"};
  const Json expected = undisturbed(longer);
  // It is held until it is stopped, however long that takes.
  const testing::Failpoints held("arena.commit.before_flip=delay=600000@rank=1,step=20,attempt=0");
  Program program(folder_.path(), train_arguments(2, {"job.epochs=30", "job.runs=stopped"}));
  wait_until_printed(program, "stopped/hurt");
  const std::vector<pid_t> workers = children_of(program.pid());
  ASSERT_EQ(workers.size(), 2U);
  ::kill(workers[1], SIGSTOP);
  const Finished result = program.wait();
  expect_same_end(result, expected, "a stopped worker");
  EXPECT_THAT(result.err, ::testing::ContainsRegex(fmt::format(
                              "worker 1 .pid {}. gave no sign of life for [0-9.]+ s: it is stopped", workers[1])));
  EXPECT_EQ(state_of({workers[1], 0}), ProcessState::kGone);
}

TEST_F(Recovery, AWorkerThatDoesNotGetOnIsNamedKilledAndReplaced) {
  const Json expected = undisturbed();
  const testing::Failpoints armed("arena.finish.before=delay=600000@rank=1,step=5,attempt=0");
  const Finished result =
      run_program(folder_.path(), train_arguments(2, {"parallel.hang_seconds=0.5", "parallel.claims=static"}));
  expect_same_end(result, expected, "a worker that hangs");
  EXPECT_THAT(result.err, ::testing::ContainsRegex("worker 1 .pid [0-9]+. computes lane [13] of step 6 for [0-9]+ s "
                                                   "without getting on"));
}

TEST_F(Recovery, ALaneThatKillsTwoWorkersEndsTheJobAndNamesItsSamples) {
  const testing::Failpoints armed("arena.start.after=kill@step=5");
  const Finished result = run_program(folder_.path(), train_arguments(2));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              ::testing::ContainsRegex("lane [0-3] of step 6 has killed 2 workers; samples [0-9]+, [0-9]+"));
}

// A picture that cannot be read, say: the message is what people need, and it is the same with one worker.
TEST_F(Recovery, ALaneThatWorkersCannotComputeEndsTheJobWithTheirReason) {
  const testing::Failpoints armed("arena.finish.before=error@step=5");
  const Finished result = run_program(folder_.path(), train_arguments(2));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              ::testing::AllOf(HasSubstr("was told to fail here"), ::testing::Not(HasSubstr("has killed"))));
}

TEST_F(Recovery, AWorkerThatFailsByItselfForAReasonThatStaysEndsTheJobWithItsCode) {
  const Finished result = run_program(folder_.path(), train_arguments(2, {"optimizer.lr=1e30", "job.epochs=20"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("not finite"));
}

}  // namespace
}  // namespace muster
