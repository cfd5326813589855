// Mistakes in data and job, each told with the key and the line that it is about.
#include "muster/trainer/job_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> doubts_of(const std::string& text, std::uint64_t samples, std::int64_t classes = 10) {
  const ResolvedJob resolved = parse_job(text, "job.toml");
  return doubts(resolved, {samples, resolved.batch, resolved.lanes}, classes);
}

TEST(JobFit, ErrorsAreAboutTheKeyThatTheyName) {
  const ResolvedJob resolved = parse_job("[data]\nsource = \"csv\"\npath = \"t.csv\"\naugment = []\n", "job.toml");
  const Error own = at_key(resolved, "data.path", Error(ErrorKind::kNotFound, "not there", "t.csv", "Make it."));
  EXPECT_EQ(own.kind(), ErrorKind::kNotFound);
  EXPECT_STREQ(own.what(), "job.toml:3: data.path: t.csv: not there. Make it.");
  const Error other = at_key(resolved, "data.path", Error(ErrorKind::kInvalidInput, "is wrong", "data.augment"));
  EXPECT_STREQ(other.what(), "job.toml:4: data.augment: is wrong");
  const Error nowhere = at_key(resolved, "data.path", Error(ErrorKind::kMismatch, "is wrong"));
  EXPECT_STREQ(nowhere.what(), "job.toml:3: data.path: is wrong");
  const Error damaged = at_key(resolved, "data.path", Error(ErrorKind::kDamaged, "is cut", "t.csv:17"));
  EXPECT_STREQ(damaged.what(), "t.csv:17: is cut") << "the place to go to is in the data";
}

TEST(JobFit, MissingDataIsNamedWithKeyAndLine) {
  const ResolvedJob resolved = parse_job("[data]\nsource = \"csv\"\npath = \"/nowhere/t.csv\"\n", "job.toml");
  try {
    open_data(resolved);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("job.toml:3: data.path: "), HasSubstr("/nowhere/t.csv")));
  }
}

TEST(JobFit, TheKeyOfTheFileAtFaultIsNamed) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "t.csv", "n,class\n1,a\n2,b\n3,a\n4,b\n");
  testing::spill(folder / "other.csv", "x,class\n1,a\n");
  const std::string job = "[data]\nsource = \"csv\"\npath = \"" + (folder / "t.csv").string() + "\"\nbatch = 2\n";
  const auto message = [&](const std::string& keys) -> std::string {
    try {
      open_data(parse_job(job + keys, "job.toml"));
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  for (const char* key : {"test_path", "validation_path"}) {
    EXPECT_THAT(message(std::string(key) + " = \"/nowhere/x.csv\"\n"),
                ::testing::StartsWith(std::string("job.toml:5: data.") + key + ": /nowhere/x.csv: "));
    EXPECT_THAT(
        message(std::string(key) + " = \"" + (folder / "other.csv").string() + "\"\n"),
        AllOf(::testing::StartsWith(std::string("job.toml:5: data.") + key + ": "), HasSubstr("no column \"n\"")));
  }
  const ResolvedJob labels = parse_job("[data]\nsource = \"pictures\"\npath = \"" + folder.path().string() +
                                           "\"\nlabels = \"" + (folder / "none.csv").string() + "\"\n",
                                       "job.toml");
  EXPECT_THAT([&] { open_data(labels); }, ::testing::ThrowsMessage<Error>(HasSubstr("job.toml:4: data.labels: ")));
}

TEST(JobFit, NumbersTakenForClassesAreDoubted) {
  const std::string table = "[data]\nsource = \"csv\"\npath = \"t.csv\"\n[loss]\ntask = \"classification\"\n";
  EXPECT_THAT(doubts_of(table, 1000, 20), IsEmpty());
  EXPECT_THAT(doubts_of(table, 1000, 501),
              ElementsAre(AllOf(HasSubstr("job.toml:5: loss.task: "), HasSubstr("501 classes in 1000 training samples"),
                                HasSubstr("loss.task = \"regression\""))));
  EXPECT_THAT(doubts_of(table, 64, 20), IsEmpty()) << "few rows may have few of each";
}

TEST(JobFit, WordsAreNoNumbersToPredict) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "t.csv", "n,color\n1,red\n2,blue\n3,red\n");
  const ResolvedJob resolved = parse_job("[data]\nsource = \"csv\"\npath = \"" + (folder / "t.csv").string() +
                                             "\"\ntarget = \"color\"\n[loss]\ntask = \"regression\"\n",
                                         "job.toml");
  EXPECT_THAT([&] { open_data(resolved); },
              ::testing::ThrowsMessage<Error>(AllOf(HasSubstr("job.toml:6: loss.task: "), HasSubstr("\"color\""),
                                                    HasSubstr("\"red\""), HasSubstr("classification"))));
}

TEST(JobFit, ABatchLargerThanTheDataIsDoubted) {
  EXPECT_THAT(doubts_of("[data]\nbatch = 64\n", 64), IsEmpty());
  EXPECT_THAT(doubts_of("[data]\nbatch = 64\n", 63),
              ElementsAre(AllOf(HasSubstr("job.toml:2: data.batch: "), HasSubstr("64 samples"), HasSubstr("63"))));
  EXPECT_THAT(doubts_of("[job]\nlanes = 4\n[data]\nlane_batch = 16\n[parallel]\nworkers = 4\n", 10),
              ElementsAre(AllOf(HasSubstr("data.lane_batch"), HasSubstr("1 lane, and of 4 workers 3 have nothing"))));
}

TEST(JobFit, WhatIsNeverReachedIsDoubted) {
  const std::string steps = "[optimizer]\nschedule = \"step\"\nmilestones = [1, 5]\n";
  EXPECT_THAT(doubts_of("[job]\nepochs = 6\n" + steps, 640), IsEmpty());
  EXPECT_THAT(doubts_of("[job]\nepochs = 5\n" + steps, 640),
              ElementsAre(AllOf(HasSubstr("job.toml:5: optimizer.milestones: 5 is never"), HasSubstr("5 epochs"))));
  EXPECT_THAT(doubts_of("[job]\nsteps = 15\n" + steps, 640), ElementsAre(HasSubstr("after 1.5 epochs")));
  EXPECT_THAT(doubts_of("[job]\nepochs = 2\n[optimizer]\nwarmup_epochs = 2\n", 640),
              ElementsAre(HasSubstr("optimizer.warmup_epochs")));
  const std::string servers = "[parallel]\nstrategy = \"parameter_server\"\nconsistency = \"asp:20, bsp\"\n";
  EXPECT_THAT(doubts_of("[job]\nsteps = 21\n" + servers, 640), IsEmpty());
  EXPECT_THAT(doubts_of("[job]\nsteps = 20\n" + servers, 640), ElementsAre(HasSubstr("bsp begins after 20 steps")));
}

TEST(JobFit, LanesThatCannotBeAreNamedWithTheKey) {
  const ResolvedJob resolved = parse_job(
      "[job]\nlanes = 2\n[data]\nsource = \"synthetic\"\nsamples = 66\nbatch = 64\n[parallel]\nworkers = 2\n"
      "strategy = \"all_reduce\"\nsync_batch_norm = true\n",
      "job.toml");
  const Datasets sets = open_data(resolved);
  try {
    lane_order(resolved, *sets.train);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("job.toml:10: parallel.sync_batch_norm"), HasSubstr("data.batch")));
  }
}

}  // namespace
}  // namespace muster::trainer
