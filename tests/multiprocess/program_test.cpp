// The program as a user meets it: exit codes, messages, output for scripts, the run's folder, stopping and resuming.
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "muster/comm/gloo_transport.h"

#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::children_of;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::spill;
using testing::TemporaryFolder;
using testing::wait_until_printed;

// A job that trains within a second: synthetic pictures, a small net.
constexpr const char* kJob = R"([job]
name = "small"
epochs = 3
[data]
source = "synthetic"
shape = [1, 8, 8]
samples = 512
test_samples = 128
batch = 64
[model]
name = "mlp"
hidden = [32]
[optimizer]
lr = 0.1
momentum = 0.9
)";

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { spill(folder_ / "job.toml", kJob); }
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }
  std::filesystem::path only_run() const {
    std::vector<std::filesystem::path> runs;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "runs"))
      runs.push_back(entry.path());
    EXPECT_EQ(runs.size(), 1U);
    return runs.at(0);
  }
  const TemporaryFolder folder_;
};

TEST_F(ProgramTest, TrainsAndLeavesEverythingInTheRunsFolder) {
  const Finished result = muster({"train", "job.toml"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("epoch 3/3"), HasSubstr("test loss "), HasSubstr("samples/s")));
  EXPECT_THAT(result.out, Not(HasSubstr("\r"))) << "a pipe gets no live line";
  const std::filesystem::path run = only_run();
  EXPECT_THAT(run.filename().string(), ::testing::StartsWith("small-"));
  for (const char* name : {"job.toml", "metrics.jsonl", "log.txt", "checkpoints/best.json"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(run / name)) << name;
  }
  EXPECT_THAT(testing::slurp(run / "log.txt"),
              AllOf(HasSubstr("usable cores"), HasSubstr("SLURM_CPUS_PER_TASK not set"), HasSubstr("1 ATen and")));
  // The resolved job is a job with every default.
  const Finished check = muster({"check", (run / "job.toml").string()});
  EXPECT_EQ(check.exit_code, 0) << check.err;
  EXPECT_THAT(testing::slurp(run / "job.toml"), AllOf(HasSubstr("lanes = 2"), HasSubstr("dampening = 0.0")));
  std::ifstream metrics(run / "metrics.jsonl");
  std::stringstream text;
  text << metrics.rdbuf();
  const std::vector<Json> events = rows(text.str());
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().at("event"), "finished");
  EXPECT_EQ(events.back().at("step"), 24);
  EXPECT_GT(events.back().at("test_accuracy").get<double>(), 0.9) << "the synthetic classes can be told apart";
}

TEST_F(ProgramTest, BeginsAProjectOnceAndUnderAProperName) {
  const Finished made = muster({"new", "my_project"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(testing::slurp(folder_ / "my_project" / "CMakeLists.txt"),
              HasSubstr("add_executable(my_project main.cpp)"));
  EXPECT_THAT(testing::slurp(folder_ / "my_project" / "main.cpp"),
              AllOf(HasSubstr("my_project.safetensors"), Not(HasSubstr("@"))));
  const Finished again = muster({"new", "my_project"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("is there already"));
  for (const char* name : {"../above", "9lives", "a b", "test"})
    EXPECT_EQ(muster({"new", name}).exit_code, 2) << name;
}

TEST_F(ProgramTest, TellsScriptsInJson) {
  const Finished result = muster({"train", "job.toml", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> events = rows(result.out);
  EXPECT_EQ(events.front().at("event"), "started");
  EXPECT_EQ(events.back().at("event"), "finished");
  EXPECT_EQ(events.back().at("weights").get<std::string>().size(), 64U);
}

TEST_F(ProgramTest, QuietPrintsNothing) {
  const Finished result = muster({"train", "job.toml", "--quiet"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out + result.err, "");
}

TEST_F(ProgramTest, SetOverridesTheFile) {
  const Finished result = muster({"train", "job.toml", "--set", "job.epochs=1", "--set", "model.name=mlp", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(rows(result.out).back().at("step"), 8);
}

TEST_F(ProgramTest, AUsersMistakeIsOneMessageExitTwoAndNothingWritten) {
  spill(folder_ / "typo.toml", "[model]\nname = \"resnet81\"\n");
  spill(folder_ / "syntax.toml", "[job]\nepochs = = 3\n");
  spill(folder_ / "missing.toml", "[data]\nsource = \"idx\"\npath = \"nowhere\"\n");
  std::filesystem::create_directory(folder_ / "damaged");
  for (const char* name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    spill(folder_.path() / "damaged" / name, "not an idx file");
  }
  spill(folder_ / "damaged.toml", "[data]\nsource = \"idx\"\npath = \"damaged\"\n");
  spill(folder_ / "shape.toml", "[data]\nsource = \"synthetic\"\nshape = [7]\n[model]\nname = \"resnet18\"\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"train", "nothere.toml"}, "nothere.toml"},
      {{"train", "typo.toml"}, "typo.toml:2: model.name: there is no model \"resnet81\" (did you mean \"resnet18\"?)"},
      {{"train", "syntax.toml"}, "syntax.toml:2"},
      {{"train", "missing.toml"}, "nowhere"},
      {{"train", "damaged.toml"}, "damaged/train-"},
      {{"train", "shape.toml"}, "resnet18"},
      {{"train", "job.toml", "--set", "model.name=transformer", "--set", "model.hidden=[]"},
       "model transformer: needs text"},
      {{"train", "job.toml", "--set", "data.bach=64"}, "did you mean \"batch\""},
      {{"train", "job.toml", "--set", "nonsense"}, "--set nonsense"},
      {{"train", "job.toml", "--resume"}, "no run of \"small\""},
      {{"train", "job.toml", "--run", "nowhere"}, "nowhere"},
      {{"check", "typo.toml"}, "typo.toml:2"},
      {{"bench", "step", "--model", "rsnet18"}, "did you mean \"resnet18\""},
      {{"train"}, "job"},
      {{"trian", "job.toml"}, "no command \"trian\" (did you mean \"train\"?)"},
      {{}, "subcommand"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Finished result = muster(arguments);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(arguments) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected)) << ::testing::PrintToString(arguments);
    EXPECT_EQ(result.out, "") << ::testing::PrintToString(arguments);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

// What check calls valid train does not refuse, and both say the same of what is wrong.
TEST_F(ProgramTest, CheckAndTrainRefuseTheSameInTheSameWords) {
  spill(folder_ / "empty.toml", "# to be written\n");
  spill(folder_ / "table.toml", "[data]\nsource = \"csv\"\npath = \"none.csv\"\n");
  spill(folder_ / "column.toml", "[data]\nsource = \"csv\"\npath = \"t.csv\"\nnumeric = [\"c\"]\n");
  spill(folder_ / "t.csv", "a,b\n1,x\n2,y\n3,x\n4,y\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"empty.toml"}, "empty.toml: the job file sets nothing"},
      {{"job.toml", "--set", "model.width=64"},
       "--set model.width=64: model.width: the model \"mlp\" has no such option"},
      {{"job.toml", "--set", "model.name=cnn", "--set", "model.hidden=[3,4]"}, "model.name: model cnn: has one hidden"},
      {{"job.toml", "--set", "model.name=transformer", "--set", "model.hidden=[]"}, "model.name: model transformer"},
      {{"job.toml", "--set", "model.freeze=[\"nothing.*\"]"}, "model.freeze: \"nothing.*\" fits no tensor"},
      {{"job.toml", "--set", "model.init=none.safetensors"}, "model.init: " + (folder_ / "none.safetensors").string()},
      {{"job.toml", "--set", "optimizer.init=none.pth"}, "optimizer.init: " + (folder_ / "none.pth").string()},
      {{"job.toml", "--set", "data.placement=local", "--set", "data.partition=file:none"},
       "data.partition: " + (folder_ / "none").string()},
      {{"table.toml"}, "table.toml:3: data.path: " + (folder_ / "none.csv").string()},
      {{"column.toml"}, "column.toml:3: data.path: " + (folder_ / "t.csv").string()},
  };
  for (const auto& [arguments, expected] : cases) {
    std::vector<std::string> errors;
    for (const char* command : {"check", "train"}) {
      std::vector<std::string> all{command};
      all.insert(all.end(), arguments.begin(), arguments.end());
      const Finished result = muster(all);
      EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(all) << result.err;
      EXPECT_THAT(result.err, HasSubstr(expected)) << ::testing::PrintToString(all);
      errors.push_back(result.err);
    }
    EXPECT_EQ(errors[0], errors[1]);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  EXPECT_EQ(muster({"check", "--file-only", "table.toml"}).exit_code, 0) << "the data need not be there";
}

TEST_F(ProgramTest, WhatIsHardlyMeantIsAWarningOfBoth) {
  for (const char* command : {"check", "train"}) {
    const Finished result = muster({command, "job.toml", "--set", "data.batch=600"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("warning: --set data.batch=600: data.batch: a batch is 600 samples"));
  }
  const Finished json = muster({"check", "job.toml", "--set", "data.batch=600", "--json"});
  EXPECT_THAT(rows(json.out).at(0).at("warnings").at(0).get<std::string>(), HasSubstr("data.batch"));
}

TEST_F(ProgramTest, SeveralWorkersThatFailAlikeSaySoOnce) {
  spill(folder_ / "missing.toml",
        "[job]\nlanes = 4\n[data]\nsource = \"csv\"\npath = \"nowhere.csv\"\n[parallel]\nworkers = 4\n");
  const Finished result = muster({"train", "missing.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("nowhere.csv"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST_F(ProgramTest, AKeyGivenAsAFlagIsAnsweredWithHowToSetIt) {
  const Finished result = muster({"train", "job.toml", "--epochs", "3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--set job.epochs=3"));
}

// Nothing is trained yet, so there is nothing to wait for.
TEST_F(ProgramTest, ASignalBeforeTheFirstStepEndsTheJobAtOnceAndIsAnswered) {
  const testing::Failpoints slow("arena.start.before=delay=600000");
  Program program(folder_.path(), testing::train_arguments(2, {"job.lanes=2"}));
  ASSERT_TRUE(testing::eventually([&] { return children_of(program.pid()).size() >= 2; }));
  program.signal(SIGINT);
  const Finished stopped = program.wait(std::chrono::seconds(60));
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("Ctrl-C: ending; nothing was trained yet"));
  EXPECT_THAT(stopped.err, Not(HasSubstr("grace period")));
}

TEST_F(ProgramTest, HelpHelpsEverywhere) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"train", "--help"}, {"check", "--help"}, {"info", "--help"}, {"bench", "--help"}}) {
    const Finished result = muster(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("Examples:\n")) << ::testing::PrintToString(arguments);
  }
  EXPECT_EQ(muster({"bench", "step", "--help"}).exit_code, 0);
  EXPECT_THAT(muster({"--version"}).out, HasSubstr("."));
}

TEST_F(ProgramTest, HelpShowsTheCommandsInGroups) {
  const std::string help = muster({"--help"}).out;
  const std::vector<std::pair<std::string, std::vector<std::string>>> groups{
      {"Train and look", {"init", "check", "train", "run", "evaluate", "predict", "generate"}},
      {"Models and data", {"model", "data"}},
      {"Running jobs", {"status", "logs", "scale", "set", "stop", "attach", "ledger"}},
      {"Measure", {"info", "bench", "chaos"}},
  };
  std::size_t at = 0;
  const auto expect_next = [&](const std::string& text) {
    at = help.find(text, at);
    EXPECT_NE(at, std::string::npos) << text << " is not there, or not in its place:\n" << help;
  };
  for (const auto& [title, commands] : groups) {
    expect_next("\n" + title + ":\n");
    for (const std::string& command : commands)
      expect_next("\n  " + command + " ");
  }
  EXPECT_THAT(help, Not(HasSubstr("ubcommands:"))) << "a command in no group";
  EXPECT_THAT(help, Not(HasSubstr("\n  server "))) << "jobs start it, not users";
}

TEST_F(ProgramTest, CheckPrintsTheJobWithEveryDefault) {
  const Finished text = muster({"check", "job.toml"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("[checkpoint]"), HasSubstr("lanes = 2"), HasSubstr("lr = 0.1")));
  const Finished json = muster({"check", "job.toml", "--json", "--set", "data.batch=256"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const std::vector<Json> row = rows(json.out);
  ASSERT_EQ(row.size(), 1U);
  EXPECT_EQ(row[0].at("resolved").at("lanes"), 8);
  EXPECT_EQ(row[0].at("data").at("batch"), 256);
}

TEST_F(ProgramTest, InfoTellsWhatIsHere) {
  const Finished json = muster({"info", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const Json row = rows(json.out).at(0);
  EXPECT_GE(row.at("cores").get<int>(), 1);
  EXPECT_FALSE(row.at("torch").get<std::string>().empty());
  EXPECT_THAT(row.at("models").dump(), HasSubstr("resnet20"));
  EXPECT_THAT(muster({"info"}).out, HasSubstr("LibTorch"));
}

// Until the job has committed some steps.
void wait_for_steps(const Program& program, const TemporaryFolder& folder) {
  ASSERT_TRUE(testing::eventually([&] {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "runs", ignored)) {
      if (testing::slurp(entry.path() / "metrics.jsonl").find("\"step\"") != std::string::npos) return true;
    }
    return false;
  })) << "no step in 60 s: "
      << program.out();
}

TEST_F(ProgramTest, StopsOnSignalsWithACheckpointAndResumesToTheSameBits) {
  const std::vector<std::string> endless{"--set", "job.epochs=100000", "--json"};
  const auto with = [&](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  for (const auto& [number, code] : std::vector<std::pair<int, int>>{{SIGINT, 130}, {SIGTERM, 143}}) {
    Program program(folder_.path(), with({"train", "job.toml"}, endless));
    wait_for_steps(program, folder_);
    program.signal(number);
    const Finished stopped = program.wait(std::chrono::seconds(30));
    ASSERT_EQ(stopped.exit_code, code) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("writing a checkpoint"));
    const Json last = rows(stopped.out).back();
    EXPECT_EQ(last.at("event"), "interrupted");
    EXPECT_THAT(last.at("resume").get<std::string>(), HasSubstr("--resume"));
    const auto at = last.at("step").get<std::uint64_t>();
    EXPECT_TRUE(std::filesystem::is_directory(folder_ / last.at("checkpoint").get<std::string>()));

    // On to a few steps more, and the same from the start without a stop.
    const std::string steps = "job.steps=" + std::to_string(at + 5);
    const Finished resumed =
        muster({"train", "job.toml", "--set", "job.epochs=100000", "--resume", "--set", steps, "--json"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(rows(resumed.out).front().at("first_step"), at);
    const Finished straight = muster({"train", "job.toml", "--set", "job.runs=straight", "--set", steps, "--json"});
    ASSERT_EQ(straight.exit_code, 0) << straight.err;
    EXPECT_EQ(rows(resumed.out).back().at("weights"), rows(straight.out).back().at("weights"));
    std::filesystem::remove_all(folder_ / "runs");
  }
}

TEST_F(ProgramTest, ResumingWithAnotherResultIsRefused) {
  ASSERT_EQ(muster({"train", "job.toml", "-q"}).exit_code, 0);
  const Finished other = muster({"train", "job.toml", "--resume", "--set", "job.lanes=4"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("job.lanes is 4 now and was 2"), HasSubstr("without --resume")));
}

TEST_F(ProgramTest, ResumingAFinishedRunWithMoreEpochsGoesOn) {
  ASSERT_EQ(muster({"train", "job.toml", "-q"}).exit_code, 0);
  const Finished again = muster({"train", "job.toml", "--resume", "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(rows(again.out).back().at("step"), 24);
  const Finished more = muster({"train", "job.toml", "--resume", "--set", "job.epochs=4", "--json"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(rows(more.out).back().at("step"), 32);
}

TEST_F(ProgramTest, EarlyStoppingEndsARunThatNoLongerImproves) {
  // Eight pictures are soon known by heart, and the test set's loss rises.
  const Finished result = muster({"train", "job.toml", "--set", "job.epochs=1000", "--set", "job.patience=2", "--set",
                                  "data.samples=8", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json last = rows(result.out).back();
  EXPECT_TRUE(last.at("early").get<bool>());
  EXPECT_LT(last.at("step").get<std::uint64_t>(), 1000U);
  EXPECT_EQ(last.at("step").get<std::uint64_t>(), last.at("best_step").get<std::uint64_t>() + 2);
}

TEST_F(ProgramTest, ARateThatExplodesSkipsStepsAndThenSaysWhatToDo) {
  const Finished result = muster({"train", "job.toml", "--set", "optimizer.lr=1e30", "--set", "job.epochs=100", "--set",
                                  "checkpoint.every_epochs=1000"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("was skipped: its gradient is not finite"), HasSubstr("Lower optimizer.lr")));
  // The run's folder says so as well, to whoever looks at it later.
  const std::string reason = "100 steps in a row had gradients that are not finite";
  const Json last = rows(testing::slurp(only_run() / "metrics.jsonl")).back();
  EXPECT_EQ(last.at("event"), "failed");
  EXPECT_THAT(last.at("reason").get<std::string>(), HasSubstr(reason));
  EXPECT_THAT(testing::slurp(only_run() / "log.txt"), HasSubstr("error: "));
  EXPECT_THAT(testing::slurp(only_run() / "log.txt"), HasSubstr(reason));
  EXPECT_THAT(testing::slurp(only_run() / "card.md"), HasSubstr("| training | failed after step "));
  EXPECT_THAT(muster({"status", "small"}).out, HasSubstr(reason));
  const Finished evaluated = muster({"evaluate", "small"});
  EXPECT_EQ(evaluated.exit_code, 2);
  EXPECT_THAT(evaluated.err, AllOf(HasSubstr("the run has no checkpoint; it failed after step "), HasSubstr(reason)));
}

TEST_F(ProgramTest, AWorkersLogIsReadableWhileItTrains) {
  Program program(folder_.path(), {"train", "job.toml", "--set", "job.epochs=100000", "--json"});
  wait_until_printed(program, "\"epoch\":2");  // when it tells of an epoch, the one before is in the log
  EXPECT_THAT(testing::slurp(only_run() / "log.txt"), AllOf(HasSubstr("usable cores"), HasSubstr("epoch 1, step 8")));
  testing::kill_everything(program);
}

TEST_F(ProgramTest, AFullDiskDoesNotEndTrainingButIsAFailureIfItLasts) {
  for (const std::size_t workers : {1U, 2U}) {
    const std::vector<std::string> arguments = testing::train_arguments(
        static_cast<int>(workers), {"job.epochs=8", "job.lanes=2", "parallel.liveness_seconds=600"});
    std::optional<testing::Failpoints> armed("arena.commit.before_flip=stop@rank=0,step=1");
    Program program(folder_.path(), arguments);
    const pid_t stopped = testing::wait_until_one_stops(program);
    armed.reset();
    // From now on nothing larger than 8 KiB can be written: checkpoints fail, training goes on and says so.
    const rlimit limit{8192, 8192};
    const std::vector<pid_t> processes = children_of(program.pid());
    ASSERT_EQ(processes.size(), workers);
    for (const pid_t process : processes)
      ASSERT_EQ(::prlimit(process, RLIMIT_FSIZE, &limit, nullptr), 0);
    ASSERT_EQ(::kill(stopped, SIGCONT), 0);
    const Finished result = program.wait();
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("was not written"), HasSubstr("the last checkpoint could not be written"),
                                  HasSubstr("--resume"), Not(HasSubstr("is lost:"))));
    // A script that reads the rows is told what the exit code says.
    EXPECT_EQ(rows(result.out).back().at("event"), "failed");
    EXPECT_THAT(rows(result.out).back().at("reason").get<std::string>(), HasSubstr("could not be written"));
    EXPECT_THAT(muster({"status", "small"}).out, HasSubstr("failed"));
    std::vector<std::string> again = arguments;
    again.emplace_back("--resume");
    const Finished resumed = muster(again);
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_EQ(rows(resumed.out).back().at("weights"), rows(result.out).back().at("weights"));
  }
}

TEST_F(ProgramTest, ARunWhoseFolderIsRemovedWhileItTrainsSaysSoAndFails) {
  for (const int workers : {1, 2}) {
    Program program(folder_.path(), testing::train_arguments(workers, {"job.epochs=100000", "job.lanes=2"}));
    ASSERT_TRUE(testing::eventually([&] {
      std::error_code none;
      for (const auto& run : std::filesystem::directory_iterator(folder_ / "runs", none))
        return std::filesystem::exists(run.path() / "checkpoints/best.json", none);
      return false;
    })) << program.err();
    // Under another name: what removes it file by file may meet a writer.
    std::filesystem::rename(only_run(), folder_ / fmt::format("gone-{}", workers));
    const Finished result = program.wait();
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("the run's folder was removed while it trained"),
                                  Not(HasSubstr("read-only")), Not(HasSubstr("started with a mistake"))));
    std::filesystem::remove_all(folder_ / "runs");  // what was being written at that moment
  }
}

TEST_F(ProgramTest, OutputThatCannotBeWrittenIsAFailure) {
  const auto code_of = [&](const char* command, const char* argument) {
    const int status = testing::status_of_child([&] {
      ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
      if (::chdir(folder_.path().c_str()) == 0) ::execl(MUSTER_PROGRAM, "muster", command, argument, nullptr);
      return 99;
    });
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(code_of("info", "--json"), 1);
  EXPECT_EQ(code_of("train", "job.toml"), 1);
}

TEST_F(ProgramTest, AFileSizeLimitThatLeavesNoSharedMemoryIsNamed) {
  const int status = testing::status_of_child([&] {
    testing::limit_file_size(4096);
    const Finished result =
        run_program(folder_.path(), {"train", "job.toml", "--set", "parallel.workers=2", "--set", "job.lanes=2"});
    return result.exit_code == 1 && result.err.find("ulimit -f") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

// The lane promise through the program: workers change speed, never the result.
TEST_F(ProgramTest, AnyNumberOfWorkersEndsWithTheSameWeights) {
  std::set<std::string> weights;
  for (const char* workers : {"1", "2", "4"}) {
    for (const char* claims : {"static", "dynamic"}) {
      const Finished result = muster({"train", "job.toml", "--set", std::string("parallel.workers=") + workers, "--set",
                                      "job.lanes=4", "--set", std::string("parallel.claims=") + claims, "--json"});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const std::vector<Json> all = rows(result.out);
      weights.insert(all.back().at("weights"));
      EXPECT_EQ(all.front().at("workers"), std::stoi(workers));
    }
  }
  EXPECT_EQ(weights.size(), 1U);
}

TEST_F(ProgramTest, OverlapWithBackwardEndsWithTheSameWeights) {
  std::set<std::string> weights;
  for (const char* overlap : {"false", "true"}) {
    const Finished result =
        muster({"train", "job.toml", "--set", "parallel.workers=2", "--set", "job.lanes=4", "--set",
                "parallel.strategy=all_reduce", "--set", std::string("parallel.overlap=") + overlap, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    weights.insert(rows(result.out).back().at("weights"));
  }
  EXPECT_EQ(weights.size(), 1U);
}

TEST_F(ProgramTest, ALostWorkerOfAFixedGroupEndsTheJobWithItsNameAndLeavesNothing) {
  Program program(folder_.path(), {"train", "job.toml", "--set", "parallel.workers=2", "--set", "job.lanes=2", "--set",
                                   "job.epochs=100000", "--set", "parallel.strategy=all_reduce", "--json"});
  wait_until_printed(program, "started");
  const std::vector<pid_t> workers = children_of(program.pid());
  ASSERT_EQ(workers.size(), 2U);
  ASSERT_EQ(::kill(workers[1], SIGKILL), 0);
  const Finished result = program.wait(std::chrono::seconds(30));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(fmt::format("worker 1 (pid {}) was killed by signal 9", workers[1])));
  for (const pid_t worker : workers)
    EXPECT_EQ(state_of({worker, 0}), ProcessState::kGone);
}

// With shared_sync workers go on for a while: tests/faults/coordinator_test.cpp.
TEST_F(ProgramTest, AKilledLauncherLeavesNoWorkerOfAFixedGroupBehind) {
  std::vector<pid_t> workers;
  {
    Program program(folder_.path(), {"train", "job.toml", "--set", "parallel.workers=2", "--set", "job.lanes=2",
                                     "--set", "job.epochs=100000", "--set", "parallel.strategy=all_reduce", "--json"});
    wait_until_printed(program, "started");
    workers = children_of(program.pid());
    ASSERT_EQ(workers.size(), 2U);
  }  // killed here
  for (const pid_t worker : workers)
    EXPECT_TRUE(testing::eventually([&] { return state_of({worker, 0}) == ProcessState::kGone; }));
}

TEST_F(ProgramTest, StoppingSeveralWorkersWritesACheckpointThatAnyNumberGoesOnFrom) {
  // Few checkpoints: each waits for the disk, which may be busy with other tests.
  const std::string rarely = "checkpoint.every_epochs=100";
  const Finished straight =
      muster({"train", "job.toml", "--set", "job.lanes=2", "--set", "job.epochs=400", "--set", rarely, "--json"});
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  std::optional<testing::Failpoints> slow("arena.commit.before_flip=delay=5");  // else it ends before it is told to
  Program program(folder_.path(), {"train", "job.toml", "--set", "parallel.workers=2", "--set", "job.lanes=2", "--set",
                                   "job.epochs=400", "--set", "job.name=stopped", "--set", rarely, "--json"});
  wait_until_printed(program, "runs/stopped");  // the file still has what the run before printed
  wait_until_printed(program, "\"validation\"");
  program.signal(SIGINT);
  const Finished stopped = program.wait();
  slow.reset();
  ASSERT_EQ(stopped.exit_code, 130) << stopped.err;
  const Finished resumed = muster({"train", "job.toml", "--set", "job.lanes=2", "--set", "job.epochs=400", "--set",
                                   "job.name=stopped", "--set", rarely, "--resume", "--json"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(rows(resumed.out).back().at("weights"), rows(straight.out).back().at("weights"));
}

TEST_F(ProgramTest, ASecondSignalEndsWorkersThatDoNotStop) {
  // After the first epoch nobody gets on.
  const testing::Failpoints armed("arena.finish.before=delay=600000@step=8");
  Program program(folder_.path(), testing::train_arguments(2, {"job.lanes=2"}));
  wait_until_printed(program, "\"validation\"");
  std::vector<ProcessId> workers;
  for (const pid_t worker : children_of(program.pid()))
    workers.push_back(process_of(worker));
  ASSERT_EQ(workers.size(), 2U);
  program.signal(SIGINT);
  ASSERT_TRUE(testing::eventually([&] { return program.err().find("again to stop at once") != std::string::npos; }))
      << program.err();
  program.signal(SIGINT);
  const Finished stopped = program.wait(std::chrono::seconds(60));
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("stopped at once, at the second signal"));
  for (const ProcessId& worker : workers)
    EXPECT_EQ(state_of(worker), ProcessState::kGone) << worker.pid;
}

TEST_F(ProgramTest, ARunWithoutASensibleNumberOfWorkersIsRefusedBeforeAnythingStarts) {
  for (const char* workers : {"0", "-1", "65", "2:1", "0:4", "1:65", "many", "1:", ":2", "1.5", ""}) {
    const Finished result = muster({"run", "--workers", workers, "sh", "-c", "touch started"});
    EXPECT_EQ(result.exit_code, 2) << workers << ": " << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("a number from 1 to 64"), HasSubstr("muster run --workers 4"))) << workers;
  }
  EXPECT_EQ(muster({"run", "sh", "-c", "touch started"}).exit_code, 2) << "without --workers";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started"));
}

TEST_F(ProgramTest, BenchesBetweenProcessesPrintRowsAndLeaveNothing) {
  const Finished workers = muster({"bench", "step", "--model", "cnn", "--batch", "4", "--workers", "1,2", "--rounds",
                                   "2", "--steps", "1", "--json"});
  ASSERT_EQ(workers.exit_code, 0) << workers.err;
  ASSERT_EQ(rows(workers.out).size(), 3U) << workers.out;
  EXPECT_EQ(rows(workers.out)[1].at("workers"), 2);
  EXPECT_EQ(rows(workers.out)[2].at("strategy"), "apart");
  for (const char* key : {"efficiency", "of_ceiling", "host_mb", "process_mb", "samples_per_s", "wait_ms"})
    EXPECT_TRUE(rows(workers.out)[1].contains(key)) << key;
  // Parameters and momentum in two versions, and a gradient for each lane: 4 and 1 times the parameters for one worker,
  // 4 and 2 times for two.
  const double ratio =
      rows(workers.out)[1].at("host_mb").get<double>() / rows(workers.out)[0].at("host_mb").get<double>();
  EXPECT_NEAR(ratio, 6.0 / 5, 0.05);
  EXPECT_EQ(workers.err, "");
  const Finished collectives = muster({"bench", "collectives", "--ranks", "2", "--sizes", "4K", "--backends",
                                       "shm,shm-shared,gloo", "--rounds", "2", "--json"});
  ASSERT_EQ(collectives.exit_code, 0) << collectives.err;
  // A build without Gloo says so, and measures the rest.
  ASSERT_EQ(rows(collectives.out).size(), comm::gloo_available() ? 4U : 3U) << collectives.out;
  EXPECT_EQ(collectives.err.find("no gloo here") == std::string::npos, comm::gloo_available()) << collectives.err;
  EXPECT_TRUE(rows(collectives.out)[0].contains("memory_gb_per_s"));
  for (const char* key : {"bench", "op", "backend", "ranks", "bytes", "median_us", "alg_gb_per_s"})
    EXPECT_TRUE(rows(collectives.out)[1].contains(key)) << key;
  const Finished arena = muster({"bench", "arena", "--size", "1M", "--ranks", "2", "--rounds", "2", "--json"});
  ASSERT_EQ(arena.exit_code, 0) << arena.err;
  EXPECT_TRUE(rows(arena.out).at(0).contains("ns_per_byte"));
  const Finished wrong = muster({"bench", "collectives", "--backends", "shn"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean \"shm\""));
}

TEST_F(ProgramTest, BenchOfStagesDrawsWhatItMeasuredAndRefusesFlagsThatWouldDoNothing) {
  const Finished drawn =
      muster({"bench", "pipeline", "--stages", "2", "--lanes", "2", "--schedule", "1f1b,interleaved", "--sleep", "0.5",
              "--steps", "1", "--width", "16", "--picture", "stages.svg", "--json"});
  ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
  EXPECT_EQ(rows(drawn.out).size(), 2U);
  const std::string picture = testing::slurp(folder_ / "stages.svg");
  // Two stages, two lanes, forward and back; and twice that with two chunks.
  std::size_t boxes = 0;
  for (std::size_t at = picture.find("<title>lane"); at != std::string::npos; at = picture.find("<title>lane", at + 1))
    ++boxes;
  EXPECT_EQ(boxes, 8U + 16U) << picture;
  const Finished computed =
      muster({"bench", "pipeline",     "--compute", "--stages", "2", "--lanes",   "4",  "--batch",
              "8",     "--layers",     "4",         "--heads",  "2", "--d-model", "64", "--context",
              "64",    "--vocabulary", "64",        "--rounds", "1", "--steps",   "1",  "--json"});
  ASSERT_EQ(computed.exit_code, 0) << computed.err;
  const Json row = rows(computed.out).at(1);
  ASSERT_EQ(row.at("team"), "pipeline");
  for (const std::size_t stage : {0, 1}) {
    const double predicted = row.at("predicted_mb").at(stage);
    EXPECT_NEAR(row.at("peak_mb").at(stage).get<double>(), predicted, 0.1 * predicted) << row.dump();
  }
  // Said by the program, and not once more by each process that it would start.
  const Finished small = muster({"bench", "pipeline", "--compute", "--stages", "8", "--lanes", "8", "--layers", "1"});
  EXPECT_EQ(small.exit_code, 2) << small.err;
  EXPECT_EQ(small.err.find("error"), small.err.rfind("error")) << small.err;
  const Finished sleeps = muster({"bench", "pipeline", "--d-model", "64"});
  EXPECT_EQ(sleeps.exit_code, 2) << sleeps.err;
  EXPECT_THAT(sleeps.err, AllOf(HasSubstr("--d-model means nothing without --compute"), HasSubstr("Add --compute")));
  const Finished computes = muster({"bench", "pipeline", "--compute", "--sleep", "3"});
  EXPECT_EQ(computes.exit_code, 2) << computes.err;
  EXPECT_THAT(computes.err, HasSubstr("--sleep means nothing with --compute"));
}

TEST_F(ProgramTest, BenchPrintsRowsThatScriptsCanRead) {
  const Finished step =
      muster({"bench", "step", "--model", "cnn", "--batch", "8", "--rounds", "2", "--steps", "1", "--json"});
  ASSERT_EQ(step.exit_code, 0) << step.err;
  const std::vector<Json> steps = rows(step.out);
  ASSERT_EQ(steps.size(), 2U);
  for (const char* key : {"bench", "model", "strategy", "workers", "lanes", "batch", "samples_per_s", "median_ms",
                          "compute_ms", "update_ms", "wait_ms", "load_ms"}) {
    EXPECT_TRUE(steps[0].contains(key)) << key;
    EXPECT_TRUE(steps[1].contains(key)) << key;
  }
  EXPECT_EQ(steps[0].at("strategy"), "shared_sync");
  EXPECT_EQ(steps[1].at("strategy"), "plain");
  const Finished uneven = muster({"bench", "step", "--model", "cnn", "--batch", "8", "--workers", "2", "--rounds", "1",
                                  "--steps", "1", "--slow", "3", "--optimizer", "adam", "--json"});
  ASSERT_EQ(uneven.exit_code, 0) << uneven.err;
  EXPECT_EQ(rows(uneven.out).at(0).at("lanes"), 8);
  EXPECT_GT(rows(uneven.out).at(0).at("of_speeds").get<double>(), 0);
  const Finished text =
      muster({"bench", "step", "--model", "transformer", "--batch", "2", "--rounds", "1", "--steps", "1", "--json"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(rows(text.out).at(0).at("model"), "transformer");
  const Finished optimizer = muster({"bench", "optimizer", "--model", "cnn", "--rounds", "1", "--json"});
  ASSERT_EQ(optimizer.exit_code, 0) << optimizer.err;
  EXPECT_EQ(rows(optimizer.out).at(0).at("optimizer"), "sgd");
}

}  // namespace
}  // namespace muster
