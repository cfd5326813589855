// A model from a user's shared object through the real program: trained, resumed, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;
using testing::spill;

class OwnLibraryTest : public ::testing::Test {
 protected:
  OwnLibraryTest() {
    spill(folder_ / "job.toml",
          testing::small_job("own", {"data.shape=[1, 8, 8]", "data.samples=512", "data.test_samples=128",
                                     "model.library=\"libmine.so\"", "model.name=\"highway\"",
                                     "model.hidden=", "model.width=32", "optimizer.lr=0.1"}));
    std::filesystem::copy_file(MUSTER_OWN_LIBRARY, folder_ / "libmine.so");
  }
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }
  Finished train(const std::string& change) { return muster({"train", "job.toml", "--json", "--set", change}); }
  const testing::TemporaryFolder folder_;
};

TEST_F(OwnLibraryTest, IsTrainedByAnyNumberOfWorkersAndItsOptionsAreTheJobs) {
  const Finished one = train("job.lanes=2");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_GT(rows(one.out).back().at("test_accuracy").get<double>(), 0.5);  // one in ten by chance
  const Finished two = muster(
      {"train", "job.toml", "--json", "--set", "job.lanes=2", "--set", "parallel.workers=2", "--set", "job.name=two"});
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(rows(one.out).back().at("weights"), rows(two.out).back().at("weights"));
  const Finished refused = train("model.dropout=0.5");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("there is no option dropout"));
}

TEST_F(OwnLibraryTest, AResumedRunNoticesAnotherFile) {
  ASSERT_EQ(train("job.epochs=1").exit_code, 0);
  // Another file to every tool, and the same code.
  std::ofstream(folder_ / "libmine.so", std::ios::app | std::ios::binary) << "changed";
  const Finished refused = muster({"train", "job.toml", "--json", "--resume"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("model.library_sha256"), HasSubstr("cannot change")));
  std::filesystem::copy_file(MUSTER_OWN_LIBRARY, folder_ / "libmine.so",
                             std::filesystem::copy_options::overwrite_existing);
  const Finished resumed = muster({"train", "job.toml", "--json", "--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

TEST_F(OwnLibraryTest, WrongLibrariesAreTheUsersMistake) {
  spill(folder_ / "text.so", "no library");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"model.library=none.so", "none.so"},
      {"model.library=text.so", "cannot load the library"},
      {std::string("model.library=") + MUSTER_NO_MODELS, "the library has no models"},
      {std::string("model.library=") + MUSTER_OTHER_MUSTER, "headers of another Muster"},
      {std::string("model.library=") + MUSTER_OTHER_TORCH, "was built for LibTorch 0.0.1"},
      {"model.name=highwa", "--set model.name=highwa"},
      {"model.name=highwa", "no model \"highwa\" (did you mean \"highway\"?); it has highway"},
      {"model.library_sha256=0000", "not the file that the job was started with"},
  };
  for (const auto& [change, message] : cases) {
    const Finished finished = train(change);
    EXPECT_EQ(finished.exit_code, 2) << change;
    EXPECT_THAT(finished.err, HasSubstr(message)) << change;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << change;
  }
}

TEST_F(OwnLibraryTest, AModelHasKeysOfItsOwnWhichAreChecked) {
  const Finished usual = train("job.name=usual");
  ASSERT_EQ(usual.exit_code, 0) << usual.err;
  const Finished said = train("model.options.gate_bias=-1");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(rows(usual.out).back().at("weights"), rows(said.out).back().at("weights")) << "its default, as an integer";
  const Finished other = train("model.options.gate_bias=-3.5");
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_NE(rows(usual.out).back().at("weights"), rows(other.out).back().at("weights"));
  const Finished resumed = muster({"train", "job.toml", "--json", "--resume"});
  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("model.options"), HasSubstr("cannot change")));
}

// The example's source and task, as its job names them.
class OwnTaskTest : public ::testing::Test {
 protected:
  OwnTaskTest() {
    std::filesystem::copy_file(MUSTER_OWN_TASK, folder_ / "libown_task.so");
    std::filesystem::copy_file(MUSTER_OWN_TASK_JOB, folder_ / "own_task.toml");
  }
  Finished muster(const std::string& command, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {command, "own_task.toml"});
    return run_program(folder_.path(), std::move(more));
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(OwnTaskTest, LearnsWithTheSameBitsForAnyNumberOfWorkersAndIsEvaluated) {
  const Finished one = muster("train", {"--json"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const Json last = rows(one.out).back();
  EXPECT_GT(last.at("test_f1").get<double>(), 0.5);  // 0 for who always says the common class
  const Finished two = muster("train", {"--json", "--set", "parallel.workers=2", "--set", "job.name=two"});
  ASSERT_EQ(two.exit_code, 0) << two.err;
  for (const char* figure : {"weights", "test_f1", "test_accuracy", "test_loss"})
    EXPECT_EQ(last.at(figure), rows(two.out).back().at(figure)) << figure;
  const Finished again = run_program(folder_.path(), {"evaluate", "own_task", "--last", "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(last.at("test_f1"), rows(again.out).back().at("f1")) << again.out;
}

TEST_F(OwnTaskTest, CheckTellsWhichKeysThereAre) {
  const Finished checked = muster("check");
  ASSERT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_THAT(checked.out,
              AllOf(HasSubstr("# [data.options] of ring (points of a plane"),
                    HasSubstr("#   width: number, 0.001 to 1; 0.1 if not set. Of the ring."),
                    HasSubstr("#   gamma: number, 0 to 10; 2.0 if not set."), HasSubstr("options = { width = 0.2 }")));
}

TEST_F(OwnTaskTest, ItsKeysAreSearchedAsOthers) {
  spill(folder_ / "study.toml",
        "[study]\njob = \"own_task.toml\"\nobjective = \"f1\"\ngoal = \"maximise\"\n"
        "[budget]\ntrials = 2\n[space]\nloss.options.gamma = { uniform = [0.5, 4.0] }\n"
        "data.options.samples = 400\ndata.validation = 0.2\njob.epochs = 1\n");
  const Finished searched = run_program(folder_.path(), {"tune", "study.toml"});
  EXPECT_EQ(searched.exit_code, 0) << searched.err;
  EXPECT_THAT(searched.out + searched.err, AllOf(HasSubstr("2 trials, 0 failed"), HasSubstr("loss.options.gamma = ")));
}

TEST_F(OwnTaskTest, KeysThatItDoesNotHaveAreNamedWithFileAndLine) {
  const std::string job = testing::slurp(MUSTER_OWN_TASK_JOB);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = job;
    text.replace(text.find(from), from.size(), to);
    spill(folder_ / "own_task.toml", text);
    const Finished refused = muster("check");
    EXPECT_EQ(refused.exit_code, 2) << refused.out;
    return refused.err;
  };
  EXPECT_THAT(with("width = 0.2", "widht = 0.2"),
              AllOf(HasSubstr("own_task.toml:15"), HasSubstr("data.options.widht"),
                    HasSubstr("did you mean \"width\"?"), HasSubstr("It has samples and width.")));
  EXPECT_THAT(with("width = 0.2", "width = \"wide\""),
              AllOf(HasSubstr("own_task.toml:15"), HasSubstr("found \"wide\" (string)"),
                    HasSubstr("Expected number, 0.001 to 1: Of the ring.")));
  EXPECT_THAT(with("gamma = 1.0", "gamma = -1"), AllOf(HasSubstr("own_task.toml:27"), HasSubstr("found -1.0")));
  EXPECT_THAT(with("gamma = 1.0", "gamma = [{}]"), AllOf(HasSubstr("loss.options"), HasSubstr("gamma is an array")));
  EXPECT_THAT(with("name = \"focal\"", "name = \"focus\""), AllOf(HasSubstr("own_task.toml:24"), HasSubstr("loss.name"),
                                                                  HasSubstr("no task \"focus\"; it has focal")));
  EXPECT_THAT(with("name = \"ring\"", "name = \"rings\""),
              AllOf(HasSubstr("own_task.toml:11"), HasSubstr("data.name"), HasSubstr("no data source \"rings\"")));
  EXPECT_THAT(with("library = \"libown_task.so\"\nname = \"ring\"", "library = \"none.so\"\nname = \"ring\""),
              AllOf(HasSubstr("own_task.toml:10"), HasSubstr("data.library"), HasSubstr("none.so")));
  EXPECT_THAT(with("name = \"ring\"\n", ""), HasSubstr("data.library: needs data.name"));
  EXPECT_THAT(with("task = \"library\"\n", ""), HasSubstr("loss.library: has no effect with the task"));
  EXPECT_THAT(with("hidden = [64, 64]", "options = { gate_bias = 1 }"), HasSubstr("model.options: has no effect"));
  spill(folder_ / "own_task.toml", job);
  EXPECT_THAT(muster("check", {"--set", "data.options.width=7"}).err,
              AllOf(HasSubstr("--set data.options.width=7"), HasSubstr("found 7.0")));
}

}  // namespace
}  // namespace muster
