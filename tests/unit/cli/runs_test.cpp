// Paths, names and beginnings of names, with runs that are alive, over or without a checkpoint.
#include "muster/cli/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "muster/base/error.h"
#include "muster/control/access_token.h"
#include "support/sandbox.h"

namespace muster::cli {
namespace {

using muster::testing::spill;
using muster::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunsTest : public ::testing::Test {
 protected:
  // Each run is a minute older than the one before.
  std::filesystem::path make(const std::string& name) {
    const std::filesystem::path run = runs() / name;
    std::filesystem::create_directories(run);
    spill(run / "job.toml", "");
    time_ -= std::chrono::minutes(1);
    std::filesystem::last_write_time(run / "job.toml", time_);
    return run;
  }
  void make_alive(const std::filesystem::path& run) {
    control::JobRecord record(control::make_sqlite_store(control::store_file(run)));
    record.take_over(this_process());
  }
  std::filesystem::path runs() const { return folder_ / "runs"; }
  std::string refusal(const std::string& job) {
    try {
      find_run(job, runs());
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  std::filesystem::file_time_type time_ = std::filesystem::file_time_type::clock::now();
};

TEST_F(RunsTest, AreListedNewestFirst) {
  const auto b = make("b-2");
  const auto a = make("a-1");
  std::filesystem::create_directories(runs() / "no-run");
  EXPECT_THAT(list_runs(runs()), ElementsAre(b, a));
  EXPECT_TRUE(list_runs(folder_ / "absent").empty());
}

TEST_F(RunsTest, AreFoundByPathNameAndBeginning) {
  const auto fashion = make("fashion-1");
  const auto longer = make("fashion-10");
  make("mnist-1");
  EXPECT_EQ(find_run(fashion.string(), "elsewhere"), fashion);
  EXPECT_EQ(find_run("fashion-1", runs()), fashion);  // a whole name, though another begins with it
  EXPECT_EQ(find_run("fashion-10", runs()), longer);
  EXPECT_EQ(find_run("mn", runs()).filename(), "mnist-1");
}

TEST_F(RunsTest, BeginningOfSeveralIsRefusedUnlessOneIsAlive) {
  make("fashion-1");
  const auto second = make("fashion-2");
  EXPECT_THAT(refusal("fashion"), AllOf(HasSubstr("fashion-1 and fashion-2"), HasSubstr("Give more")));
  make_alive(second);
  EXPECT_EQ(find_run("fashion", runs()), second);
}

TEST_F(RunsTest, WhoUsesAModelMeansTheNewestRunOfAJobByItsWholeName) {
  const auto newest = make("text-20260102-120000-002");
  make("text-20260102-120000");
  make("text-2-20260103-120000");
  make("text_lstm-20260103-120000");
  EXPECT_EQ(find_run("text-2", runs()).filename(), "text-2-20260103-120000") << "others begin so, too";
  EXPECT_EQ(find_newest_run("text", runs()), newest);
  EXPECT_EQ(find_model("text", runs()).path, newest);
  EXPECT_EQ(find_model("text_l", runs()).path.filename(), "text_lstm-20260103-120000");
  EXPECT_EQ(find_model("text-20260102-120000", runs()).path.filename(), "text-20260102-120000");
  EXPECT_THROW(find_model("tex", runs()), Error) << "the beginning of several";
  EXPECT_THROW(find_run("text", runs()), Error) << "to stop one it must be said which";
}

TEST_F(RunsTest, AModelIsAFileARunOrANameOfAJob) {
  const auto run = make("mnist-20260102-120000");
  spill(folder_ / "a.safetensors", "");
  EXPECT_EQ(find_model((folder_ / "a.safetensors").string(), runs()).path, folder_ / "a.safetensors");
  EXPECT_EQ(find_model(run.string(), "elsewhere").path, run);
  EXPECT_EQ(find_model("mnist", runs()).path, run);
  std::filesystem::create_directories(run / "checkpoints");
  EXPECT_EQ(find_model((run / "checkpoints").string(), runs()).path, run / "checkpoints") << "what is in a run";
  EXPECT_THROW(find_model("nothing", runs()), Error);
}

TEST_F(RunsTest, ANewerRunWithoutACheckpointIsPassedOverAndSaid) {
  make("iris-20260104-120000");
  make("iris-20260103-120000");
  const auto usable = make("iris-20260102-120000");
  make("iris-20260101-120000");
  EXPECT_EQ(find_model("iris", runs()).path.filename(), "iris-20260104-120000") << "none has one";
  for (const char* run : {"iris-20260102-120000", "iris-20260101-120000"})
    std::filesystem::create_directories(runs() / run / "checkpoints/step-000000000010");
  const FoundModel found = find_model("iris", runs());
  EXPECT_EQ(found.path, usable);
  EXPECT_THAT(found.note, AllOf(HasSubstr("iris-20260104-120000 is newer and has no checkpoint"),
                                HasSubstr("iris-20260102-120000 is taken")));
  EXPECT_EQ(find_model((runs() / "iris-20260104-120000").string(), runs()).note, "") << "named by its folder";
}

TEST_F(RunsTest, UnknownRunIsRefusedWithWhatThereIs) {
  EXPECT_THAT(refusal("fashion"), HasSubstr("--runs"));
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
    make(name);
  EXPECT_THAT(refusal("x"), HasSubstr("a, b, c, d, e and 2 more"));
  EXPECT_THAT(refusal(""), HasSubstr("no run"));
}

TEST_F(RunsTest, AliveIsWhatHasALivingProcess) {
  const auto run = make("a");
  EXPECT_FALSE(is_alive(run));  // no record
  constexpr ProcessId kNobody{2'000'000'000, 1};
  control::JobRecord record(control::make_sqlite_store(control::store_file(run)));
  record.take_over(kNobody);
  EXPECT_FALSE(is_alive(run));
  record.put_membership({.generation = 1, .members = {{0, kNobody, 0, control::WorkerState::kRunning}}});
  EXPECT_FALSE(is_alive(run));
  record.put_membership({.generation = 2, .members = {{0, this_process(), 0, control::WorkerState::kRunning}}});
  EXPECT_TRUE(is_alive(run));
  record.put_membership({.generation = 3});
  record.take_over(this_process());
  EXPECT_TRUE(is_alive(run));
  record.release();
  EXPECT_FALSE(is_alive(run));
}

}  // namespace
}  // namespace muster::cli
