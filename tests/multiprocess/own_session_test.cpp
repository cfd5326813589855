// Programs of users under `muster run` that make mistakes, lose workers or are stopped: what they are told, how the job
// ends, and that nothing is lost.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;
using testing::run_program;
using testing::TemporaryFolder;

class OwnSession : public ::testing::Test {
 protected:
  std::vector<std::string> arguments(int workers, const std::string& mode) const {
    return {"run", "-n", std::to_string(workers), OWN_SESSION, mode};
  }
  Finished run(int workers, const std::string& mode) { return run_program(folder_.path(), arguments(workers, mode)); }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  }
  // The replacement may come when all steps are done and the others have left: it leads then, and says the end again.
  static std::string without_last_again(const std::string& lines) {
    const std::size_t last = lines.find("weights ");
    return last == std::string::npos ? lines : lines.substr(0, lines.find('\n', last) + 1);
  }
  // Until the job can be commanded and has done a step.
  void wait_for_step(const Program& program) const {
    const Deadline deadline = Deadline::after(std::chrono::seconds(100));
    const TemporaryFolder elsewhere;  // for what the command prints
    for (;;) {
      const Finished status =
          run_program(elsewhere.path(), {"status", "own_session", "--runs", (folder_ / "runs").string(), "--json"});
      if (status.exit_code == 0 && testing::rows(status.out).back().at("step") > 0) return;
      ASSERT_FALSE(deadline.passed()) << status.out << status.err << program.err();
    }
  }
  const TemporaryFolder folder_;
};

// Until it trains.
void wait_for_checkpoint(const std::filesystem::path& folder, const Program& program) {
  const auto trains = [&] {
    std::error_code error;
    return !std::filesystem::is_empty(folder, error) && !error;
  };
  ASSERT_TRUE(testing::eventually(trains, Deadline::after(std::chrono::seconds(100)))) << program.err();
}

TEST_F(OwnSession, WorkersThatWouldNotTrainTheSameEndTheJobWithBothValues) {
  const Finished batch = run(2, "batch");
  EXPECT_EQ(batch.exit_code, 2) << batch.err;
  EXPECT_THAT(batch.err,
              ::testing::ContainsRegex("batch is (20 at worker 1 and 16 at worker 0|16 at worker 0 and 20)"));
  EXPECT_EQ(count(batch.err, "would not train the same"), 1U) << batch.err;
  const Finished data = run(2, "data");
  EXPECT_EQ(data.exit_code, 2) << data.err;
  EXPECT_THAT(data.err, AllOf(HasSubstr("samples of the data set is"), HasSubstr("300"), HasSubstr("320")));
}

TEST_F(OwnSession, WritingToParametersIsExplainedAndNotTriedAgainAndAgain) {
  for (const std::string mode : {"write", "write-later"}) {
    const Finished result = run(2, mode);
    EXPECT_EQ(result.exit_code, 139) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("writes to parameter 0.weight"), HasSubstr("before synchronize()"),
                                  HasSubstr("the job ends: worker"), Not(HasSubstr("--resume"))));
    // Both at the start, and perhaps those that had taken their places by the time it was clear.
    EXPECT_LE(count(result.err, "writes to parameter"), 4U) << result.err;
  }
}

// Alone nobody shares the parameters, and servers have copies of their own; a write is lost there all the same.
TEST_F(OwnSession, WritingToParametersIsExplainedAloneAndWithServersToo) {
  for (const std::string mode : {"write", "write-later", "write-servers"}) {
    const int status = testing::status_of_child([&] {
      if (::freopen((folder_ / mode).c_str(), "w", stderr) == nullptr) return 99;
      ::execl(OWN_SESSION, OWN_SESSION, mode.c_str(), nullptr);
      return 99;
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << mode << ": " << status;
    EXPECT_THAT(testing::slurp(folder_ / mode),
                AllOf(HasSubstr("writes to parameter 0.weight"), HasSubstr("before synchronize()")))
        << mode;
  }
}

TEST_F(OwnSession, StagesThatShareAWeightHaveTheBitsOfOneWorker) {
  const Finished alone = run(1, "tied");
  EXPECT_THAT(alone.out, HasSubstr("weights ")) << alone.err;
  EXPECT_EQ(run(2, "tied").out, alone.out);
}

TEST_F(OwnSession, AStepThroughStagesGoesOnWithThoseWhoAreLeft) {
  const Finished alone = run(1, "tied");
  EXPECT_THAT(alone.out, HasSubstr("weights ")) << alone.err;
  const Finished killed = run(2, "tied-killed");
  EXPECT_EQ(killed.exit_code, 0) << killed.err;
  EXPECT_THAT(killed.err, HasSubstr("is lost"));
  EXPECT_EQ(without_last_again(killed.out), alone.out) << killed.err;
}

TEST_F(OwnSession, ALaneThatKillsWorkersIsNamedWithItsSamples) {
  const Finished result = run(2, "deadly");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const std::size_t end = result.err.find(", are deadly");
  ASSERT_NE(end, std::string::npos) << result.err;
  const std::size_t line = result.err.rfind('\n', end);
  const std::string samples = result.err.substr(line + 1, end - line - 1);
  EXPECT_EQ(std::count(samples.begin(), samples.end(), ','), 7) << samples;
  EXPECT_THAT(result.err, HasSubstr("lane 1 of step 6 has killed 2 workers; samples " + samples + "."));
}

TEST_F(OwnSession, AnErrorThatEveryWorkerMeetsIsNotMetAgainAndAgain) {
  const Finished result = run(2, "fails");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("nothing can be done here"));
  EXPECT_LE(count(result.err, "nothing can be done here"), 5U) << result.err;
}

TEST_F(OwnSession, StatusTellsTheEpochOfAProgram) {
  Program program(folder_.path(), arguments(2, "unkept"));
  wait_for_step(program);
  const TemporaryFolder elsewhere;  // for what the command prints
  Json now;
  ASSERT_TRUE(testing::eventually([&] {
    now = testing::rows(
              run_program(elsewhere.path(), {"status", "own_session", "--runs", (folder_ / "runs").string(), "--json"})
                  .out)
              .back();
    return now.at("step").get<std::uint64_t>() > 20;
  }));
  EXPECT_EQ(now.at("epoch").get<std::uint64_t>(), now.at("step").get<std::uint64_t>() / 20 + 1) << now;
  program.signal(SIGTERM);
  program.wait();
}

TEST_F(OwnSession, TwoProgramsDoNotWriteIntoOneFolderOfCheckpoints) {
  Program program(folder_.path(), arguments(1, "long"));
  wait_for_checkpoint(folder_ / "kept", program);
  const TemporaryFolder elsewhere;
  std::filesystem::create_symlink(folder_ / "kept", elsewhere / "kept");
  const Finished second = run_program(elsewhere.path(), arguments(1, "both"));
  EXPECT_NE(second.exit_code, 0);
  EXPECT_THAT(second.err, HasSubstr("writes its checkpoints here"));
  EXPECT_LE(count(second.err, "writes its checkpoints here"), 3U) << second.err;
  program.signal(SIGTERM);
  program.wait();
}

TEST_F(OwnSession, AFailureAtTheStartIsNotRepeatedAndEndsTheJobWithoutAdviceThatDoesNotApply) {
  const Finished result = run(2, "missing");
  EXPECT_EQ(result.exit_code, 134) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("nowhere"), HasSubstr("the job ends: worker"), Not(HasSubstr("--resume"))));
  EXPECT_LE(count(result.err, "what():"), 4U) << result.err;
}

TEST_F(OwnSession, AWorkerThatReturnsEarlyIsMentionedAndTheOthersFinishTheJob) {
  const Finished whole = run(2, "train");
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("weights "));
  EXPECT_EQ(whole.err, "");
  const Finished early = run(2, "early");
  EXPECT_EQ(early.exit_code, 0) << early.err;
  EXPECT_EQ(early.out, whole.out) << "the one that is left was lost once, and replaced";
  EXPECT_THAT(early.err, ::testing::ContainsRegex("worker 1 \\(pid [0-9]+\\) has left after step"));
}

TEST_F(OwnSession, AStepGoesOnWithThoseWhoAreLeft) {
  const std::string whole = run(1, "train").out;
  EXPECT_EQ(run(2, "steps").out, whole);
  const Finished killed = run(2, "steps-killed");
  EXPECT_EQ(killed.exit_code, 0) << killed.err;
  EXPECT_THAT(killed.err, HasSubstr("is lost"));
  EXPECT_EQ(without_last_again(killed.out), whole) << killed.err;
}

TEST_F(OwnSession, AnEvaluationSurvivesTheLossOfItsLeader) {
  const Finished alone = run(1, "evaluate");
  ASSERT_NE(alone.out.find("epoch 5: "), std::string::npos) << alone.out << alone.err;
  for (const int workers : {2, 3}) {
    const Finished several = run(workers, "evaluate-killed");
    EXPECT_EQ(several.exit_code, 0) << several.err;
    EXPECT_EQ(without_last_again(several.out), alone.out);
  }
}

TEST_F(OwnSession, StoppingKeepsEveryStepUpToTheEnd) {
  Program program(folder_.path(), arguments(2, "long"));
  wait_for_checkpoint(folder_ / "kept", program);
  wait_for_step(program);
  const TemporaryFolder elsewhere;  // for what the command prints
  const Finished stop = run_program(elsewhere.path(), {"stop", "own_session", "--runs", (folder_ / "runs").string()});
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  const Finished result = program.wait();
  EXPECT_GT(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("stopped after step "), HasSubstr("kept")));
  const std::size_t at = result.err.find("stopped after step ");
  const int step = std::atoi(result.err.c_str() + at + std::string("stopped after step ").size());
  EXPECT_GE(step, 20);
  // A program that ends before it trains: whoever comes first does not leave the others waiting for it.
  const Finished resumed = run(2, "resume");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(count(resumed.out, "resumed at " + std::to_string(step)), 2U) << resumed.out;
}

TEST_F(OwnSession, StoppingWhileTheOthersAreStillLoadingEndsTheJobBeforeTheGraceIsOver) {
  Program program(folder_.path(), arguments(2, "late"));
  ASSERT_TRUE(testing::eventually([&] { return program.err().find("waiting") != std::string::npos; })) << program.err();
  program.signal(SIGINT);
  const Finished result = program.wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("stopped before the first step")) << "killed when its grace was over";
}

// What a program does before it trains nobody knows, but it is a job that can be seen and ended.
TEST_F(OwnSession, AProgramThatLoadsIsKnownAndCanBeStopped) {
  Program program(folder_.path(), arguments(2, "late"));
  ASSERT_TRUE(testing::eventually([&] { return program.err().find("waiting") != std::string::npos; })) << program.err();
  const TemporaryFolder elsewhere;  // for what the commands print
  const auto ask = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--runs", (folder_ / "runs").string()});
    return run_program(elsewhere.path(), words);
  };
  Finished status;
  ASSERT_TRUE(testing::eventually([&] {
    status = ask({"status", "own_session", "--json"});
    return status.exit_code == 0;
  })) << status.err;
  EXPECT_EQ(testing::rows(status.out).front().at("state"), "starting");
  EXPECT_EQ(testing::rows(status.out).front().at("members").size(), 2U);
  const Finished stopped = ask({"stop", "own_session", "--timeout", "60"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_NE(program.wait().exit_code, 0);
}

TEST_F(OwnSession, AStepAfterTheEndThatSomebodyAskedForIsRefused) {
  Program program(folder_.path(), arguments(2, "stopped"));
  wait_for_step(program);
  program.signal(SIGTERM);
  const Finished result = program.wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the session was stopped after step "), HasSubstr("trains no more"),
                                HasSubstr("session.stop_requested()")));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "stopped.safetensors")) << "what follows the last step goes on";
}

TEST_F(OwnSession, ASecondSessionIsRefused) {
  const Finished result = run(2, "two");
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("has made a session already"), HasSubstr("named parts of one session")));
}

TEST_F(OwnSession, AProgramThatNeverTrainedLeavesNoFolder) {
  EXPECT_NE(run(2, "missing").exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(OwnSession, StoppingAProgramWithoutCheckpointsSaysThatThereIsNone) {
  Program program(folder_.path(), arguments(2, "unkept"));
  wait_for_step(program);
  program.signal(SIGTERM);
  const Finished result = program.wait();
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("no checkpoint was written"));
}

}  // namespace
}  // namespace muster
