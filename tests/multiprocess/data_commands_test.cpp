// Data as a user meets it: a table made, looked at, turned into a job, trained and packed, all by the program.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "muster/base/random.h"
#include "support/bmp_file.h"
#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;
using testing::TemporaryFolder;

class DataCommands : public ::testing::Test {
 protected:
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }
  // The last row of a training run with --json.
  Json train(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "train");
    arguments.emplace_back("--json");
    const Finished result = muster(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return rows(result.out).back();
  }
  void make_table() {
    const Finished made = muster({"data", "make-table", "table.csv", "--rows", "3000"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  const TemporaryFolder folder_;
};

TEST_F(DataCommands, ListSourcesAndSayHowToGetThem) {
  const Finished result = muster({"data"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("fashion-mnist"), HasSubstr("csv"), HasSubstr("packed")));
  const std::vector<Json> list = rows(muster({"data", "--json"}).out);
  EXPECT_EQ(list.front().at("package"), "dataset-fashion-mnist");
}

TEST_F(DataCommands, AnInitialisedTableTrainsAndPacksToTheSameSamples) {
  make_table();
  const Finished init = muster({"init", "table.csv"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(testing::slurp(folder_ / "table.toml"), AllOf(HasSubstr("target = \"class\""), HasSubstr("# ")));
  const Finished again = muster({"init", "table.csv"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  const Json one = train({"table.toml", "--set", "job.epochs=3"});
  EXPECT_GT(one.at("test_accuracy").get<double>(), 0.8) << "the classes follow a rule";
  const Json two = train({"table.toml", "--set", "job.epochs=3", "--set", "parallel.workers=2"});
  EXPECT_EQ(one.at("weights"), two.at("weights"));
  const Finished pack = muster({"data", "pack", "table.toml", "shards", "--shards", "3"});
  ASSERT_EQ(pack.exit_code, 0) << pack.err;
  const Json packed = train({"table.toml", "--set", "job.epochs=3", "--set", "data.source=packed", "--set",
                             "data.path=shards", "--set", "data.target="});
  EXPECT_EQ(one.at("weights"), packed.at("weights")) << "packing changes where samples are, not what they are";
}

TEST_F(DataCommands, ATableOfNumbersToPredictTrainsInItsOwnUnits) {
  // Prices around half a million: without a scale the first step would throw the weights far away.
  std::string table = "size,rooms,kind,price\n";
  RandomStream draw({.seed = 11});
  for (int row = 0; row < 2000; ++row) {
    const auto size = static_cast<double>(draw.below(1000)) / 10;
    const auto rooms = draw.below(6);
    const bool old = draw.below(2) == 0;
    table += fmt::format("{},{},{},{}\n", size, rooms, old ? "old" : "new",
                         400000 + 2000 * size + 10000.0 * static_cast<double>(rooms) - (old ? 50000 : 0));
  }
  testing::spill(folder_ / "prices.csv", table);
  const Finished init = muster({"init", "prices.csv"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(testing::slurp(folder_ / "prices.toml"), HasSubstr("task = \"regression\""));
  const Json one = train({"prices.toml", "--set", "job.epochs=5"});
  EXPECT_GT(one.at("test_r2").get<double>(), 0.98);
  EXPECT_LT(one.at("test_mae").get<double>(), 10000);
  EXPECT_GT(one.at("test_mae").get<double>(), 10) << "in the unit of the prices";
  EXPECT_FALSE(one.contains("test_accuracy"));
  const Json two = train({"prices.toml", "--set", "job.epochs=5", "--set", "parallel.workers=2"});
  for (const char* key : {"weights", "test_loss", "test_mae", "test_mse", "test_r2", "best_mae"})
    EXPECT_EQ(one.at(key), two.at(key)) << key;
  ASSERT_EQ(muster({"data", "pack", "prices.toml", "shards"}).exit_code, 0);
  const Json packed = train({"prices.toml", "--set", "job.epochs=5", "--set", "data.source=packed", "--set",
                             "data.path=shards", "--set", "data.target="});
  EXPECT_EQ(one.at("test_mae"), packed.at("test_mae")) << "shards know the unit too";
}

TEST_F(DataCommands, EverySourceOfFilesIsShownByItsName) {
  make_table();
  testing::spill(folder_ / "a.txt", std::string(2000, 'a') + std::string(2000, 'b'));
  for (const auto& [source, path] : {std::pair("text", "a.txt"), std::pair("csv", "table.csv")}) {
    const Finished result = muster({"data", "show", source, "--path", path, "--json"});
    EXPECT_EQ(result.exit_code, 0) << source << result.err;
  }
}

TEST_F(DataCommands, ATextTrainsALanguageModel) {
  std::string text;
  while (text.size() < 20000)
    text += "the quick brown fox jumps over the lazy dog. ";
  testing::spill(folder_ / "fox.txt", text);
  const Finished init = muster({"init", "fox.txt"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  const std::vector<std::string> job{"fox.toml",    "--set", "job.steps=60",  "--set",
                                     "job.lanes=2", "--set", "data.window=16"};
  const Json one = train(job);
  EXPECT_LT(one.at("test_perplexity").get<double>(), 3) << "28 characters at first";
  EXPECT_NEAR(one.at("test_perplexity").get<double>(), std::exp(one.at("test_loss").get<double>()), 1e-9);
  std::vector<std::string> with_two = job;
  with_two.insert(with_two.end(), {"--set", "parallel.workers=2"});
  EXPECT_EQ(one.at("weights"), train(with_two).at("weights"));
  const Finished wrong = muster({"check", "fox.toml", "--set", "loss.task=classification"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("loss.task"), HasSubstr("Set loss.task = \"language\"")));
}

TEST_F(DataCommands, TheExampleTrainsAndItsBadLinesAreTold) {
  make_table();
  testing::spill(folder_ / "table.csv", testing::slurp(folder_ / "table.csv") + "1,2,3\n");
  const Finished result =
      muster({"train", MUSTER_EXAMPLES "/table.toml", "--set", "data.path=table.csv", "--set", "job.epochs=1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out + result.err, AllOf(HasSubstr("1 bad sample skipped"), HasSubstr("table.csv:3002")));
  const Finished strict = muster({"train", MUSTER_EXAMPLES "/table.toml", "--set", "data.path=table.csv", "--set",
                                  "data.on_bad_sample=fail", "--set", "job.epochs=1"});
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_THAT(strict.err, AllOf(HasSubstr("table.csv:3002"), HasSubstr("3 fields where 16")));
}

TEST_F(DataCommands, ShowCountsClassesOfWhatItIsGiven) {
  make_table();
  const Finished result = muster({"data", "show", "table.csv", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json row = rows(result.out).front();
  EXPECT_EQ(row.at("source"), "csv");
  EXPECT_EQ(row.at("classes"), 3);
  EXPECT_EQ(row.at("train").get<int>() + row.at("test").get<int>(), 3000);
  int counted = 0;
  for (const auto& [name, count] : row.at("per_class").items())
    counted += count.get<int>();
  EXPECT_EQ(counted, row.at("train").get<int>());
  const Finished unknown = muster({"data", "show", "fashion-mnits"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"fashion-mnist\""));
}

// The job that init writes can be shared by more workers than it names, with the result that it says.
TEST_F(DataCommands, AnInitialisedJobOfFewSamplesHasLanesForMoreWorkers) {
  std::string table = "n;size;class\n";
  for (int i = 0; i < 200; ++i)
    table += fmt::format("{},5;{},25;{}\n", i % 10, i % 7, i % 10 < 5 ? "low" : "high");
  table += "1,5;2\n";
  testing::spill(folder_ / "small.csv", table);
  const Finished init = muster({"init", "small.csv", "--ignore", "size"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(init.out, AllOf(HasSubstr("decimal commas"), HasSubstr("small.csv:202")));
  EXPECT_THAT(testing::slurp(folder_ / "small.toml"),
              AllOf(HasSubstr("lanes = 2"), HasSubstr("decimal = \",\""), HasSubstr("ignore = [\"size\"]"),
                    HasSubstr("on_bad_sample = \"skip\"")));
  const Json one = train({"small.toml", "--set", "job.epochs=2"});
  EXPECT_EQ(one.at("weights"),
            train({"small.toml", "--set", "job.epochs=2", "--set", "parallel.workers=2"}).at("weights"));
}

TEST_F(DataCommands, CheckListsEverythingThatIsBad) {
  make_table();
  const Finished good = muster({"data", "check", "table.csv"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("0 bad of 3,000 samples"));
  std::string lines = testing::slurp(folder_ / "table.csv");
  for (int i = 0; i < 25; ++i)
    lines += "1,2,3\n";
  testing::spill(folder_ / "table.csv", lines);
  const Finished bad = muster({"data", "check", "csv", "--path", "table.csv"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("table.csv:3002: has 3 fields"), HasSubstr("table.csv:3026: has 3 fields"),
                             HasSubstr("25 bad of 3,000 samples")));
  EXPECT_THAT(bad.err, HasSubstr("on_bad_sample"));
  ASSERT_EQ(muster({"data", "pack", "csv", "shards", "--path", "table.csv", "--shards", "1", "--set",
                    "data.on_bad_sample=skip"})
                .exit_code,
            0);
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "shards"))
    if (entry.is_regular_file() && entry.path().filename().string().starts_with("test")) shard = entry.path();
  std::string bytes = testing::slurp(shard);
  for (const std::size_t at : {bytes.size() / 3, bytes.size() / 2})
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
  testing::spill(shard, bytes);
  const Json row = rows(muster({"data", "check", "shards", "--json"}).out).at(0);
  EXPECT_EQ(row.at("bad_samples"), 2);
  EXPECT_THAT(row.at("bad").at(0).get<std::string>(), HasSubstr(": record "));
}

TEST_F(DataCommands, SeveralNumbersArePredictedTogether) {
  std::string table = "a,b,sum,difference\n";
  RandomStream draw({.seed = 3});
  for (int row = 0; row < 1500; ++row) {
    const auto a = static_cast<double>(draw.below(100));
    const auto b = static_cast<double>(draw.below(100));
    table += fmt::format("{},{},{},{}\n", a, b, 1000 + a + b, a - b);
  }
  testing::spill(folder_ / "pairs.csv", table);
  const Finished init = muster({"init", "pairs.csv", "--target", "sum", "difference"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  const Json result = train({"pairs.toml", "--set", "job.epochs=12"});
  EXPECT_GT(result.at("test_r2").get<double>(), 0.95);
  testing::spill(folder_ / "new.csv", "b,a\n20,80\n");
  const Finished predicted =
      muster({"predict", result.at("run").get<std::string>(), "--data", "new.csv", "--out", "answers.csv"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  const std::string answers = testing::slurp(folder_ / "answers.csv");
  EXPECT_THAT(answers, HasSubstr("sample,sum,difference\n"));
  double sum = 0;
  double difference = 0;
  ASSERT_EQ(std::sscanf(answers.substr(answers.find("new.csv:2,") + 10).c_str(), "%lf,%lf", &sum, &difference), 2);
  EXPECT_NEAR(sum, 1100, 25);
  EXPECT_NEAR(difference, 60, 25);
}

TEST_F(DataCommands, RareClassesCanCountMore) {
  std::string table = "n,class\n";
  RandomStream draw({.seed = 4});
  for (int row = 0; row < 1000; ++row)  // every tenth is rare, and looks like some of the others
    table += fmt::format("{},{}\n", draw.uniform() + (row % 10 == 0 ? 0.5 : 0), row % 10 == 0 ? "rare" : "usual");
  testing::spill(folder_ / "t.csv", table);
  testing::spill(folder_ / "job.toml",
                 "[job]\nepochs = 20\n[data]\nsource = \"csv\"\npath = \"t.csv\"\n[model]\nname = \"mlp\"\n"
                 "hidden = [8]\n[optimizer]\nname = \"adam\"\nlr = 0.01\n");
  const auto rare_predictions = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words{"job.toml"};
    words.insert(words.end(), flags.begin(), flags.end());
    const std::string run = train(words).at("run");
    EXPECT_EQ(muster({"predict", run, "--data", "t.csv", "--out", "answers.csv", "--last"}).exit_code, 0);
    const std::string answers = testing::slurp(folder_ / "answers.csv");
    std::size_t count = 0;
    for (std::size_t at = answers.find(",rare,"); at != std::string::npos; at = answers.find(",rare,", at + 1))
      ++count;
    return count;
  };
  const std::size_t plain = rare_predictions({});
  const std::size_t balanced = rare_predictions({"--set", "loss.class_weights=[\"balanced\"]"});
  EXPECT_GT(balanced, plain + 100) << plain;
  for (const char* command : {"train", "check"}) {
    const Finished wrong = muster({command, "job.toml", "--set", "loss.class_weights=[\"usuall=2\"]"});
    EXPECT_EQ(wrong.exit_code, 2) << command;
    EXPECT_THAT(wrong.err, AllOf(HasSubstr("loss.class_weights"), HasSubstr("did you mean \"usual\""))) << command;
  }
}

TEST_F(DataCommands, PartitionDrawsWhatEachLaneHolds) {
  const Finished drawn = muster({"data", "partition", "synthetic", "--set", "data.samples=640", "--set",
                                 "data.shape=[4]", "--policy", "consecutive,dirichlet:0.3", "--lanes", "2"});
  ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
  EXPECT_THAT(drawn.out, AllOf(HasSubstr("consecutive: 640 samples in 32 shards"),
                               HasSubstr("lane 1   ................################  320 samples, worker 1\n"),
                               HasSubstr("by class")));
  const std::vector<Json> list =
      rows(muster({"data", "partition", "synthetic", "--set", "data.samples=640", "--policy", "hash", "--json"}).out);
  ASSERT_EQ(list.size(), 1U);
  std::size_t shards = 0;
  for (const Json& lane : list[0].at("lanes"))
    shards += lane.size();
  EXPECT_EQ(shards, list[0].at("shards").get<std::size_t>());
  EXPECT_EQ(muster({"data", "partition", "synthetic", "--policy", "hsah"}).exit_code, 2);
}

TEST_F(DataCommands, BenchGivesARowForEachNumberOfThreads) {
  const Finished result = muster({"bench", "data", "--source", "synthetic", "--set", "data.shape=[8]", "--threads",
                                  "1,2", "--seconds", "0.1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> list = rows(result.out);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[1].at("bench"), "data");
  EXPECT_EQ(list[1].at("source"), "synthetic");
  EXPECT_EQ(list[1].at("threads"), 2);
  EXPECT_GT(list[1].at("samples_per_s").get<double>(), 0);
  EXPECT_GT(list[1].at("mb_per_s").get<double>(), 0);
}

TEST_F(DataCommands, ASkippedSampleIsNamedByTheLedger) {
  make_table();
  ASSERT_EQ(muster({"data", "pack", "csv", "shards", "--path", "table.csv", "--shards", "1"}).exit_code, 0);
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "shards"))
    if (entry.is_regular_file() && entry.path().filename().string().starts_with("train")) shard = entry.path();
  std::string bytes = testing::slurp(shard);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);  // in the middle of some record
  testing::spill(shard, bytes);
  testing::spill(folder_ / "job.toml",
                 "[job]\nepochs = 2\nledger = true\n[data]\nsource = \"packed\"\npath = \"shards\"\n"
                 "on_bad_sample = \"skip\"\nvalidation = 0.1\n[model]\nname = \"mlp\"\n");
  const Json alone = train({"job.toml"});
  const Json shared = train({"job.toml", "--set", "parallel.workers=2"});
  EXPECT_EQ(alone.at("weights"), shared.at("weights"));
  const std::string run = shared.at("run");
  const Finished check = muster({"ledger", "check", run, "--json"});
  ASSERT_EQ(check.exit_code, 0) << check.err;
  const Json report = rows(check.out).front();
  EXPECT_EQ(report.at("whole_epochs"), 2);
  // Unless the bad one is held out, it was met once an epoch.
  ASSERT_EQ(report.at("skipped"), 2) << report;
  EXPECT_EQ(report.at("skipped_ids").size(), 1U);
  EXPECT_THAT(muster({"ledger", "check", run}).out, HasSubstr("each loaded or skipped once"));
}

TEST_F(DataCommands, DataThatChangedIsNoticedWhenARunIsResumed) {
  make_table();
  testing::spill(folder_ / "job.toml",
                 "[job]\nepochs = 1\n[data]\nsource = \"csv\"\npath = \"table.csv\"\n[model]\nname = \"mlp\"\n");
  train({"job.toml"});
  testing::spill(folder_ / "table.csv", testing::slurp(folder_ / "table.csv") + "\n");
  const Finished changed = muster({"train", "job.toml", "--resume", "--set", "job.epochs=2"});
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_THAT(changed.err, AllOf(HasSubstr("table.csv"), HasSubstr("not what it was when the run began"),
                                 HasSubstr("without --resume")));
  make_table();
  EXPECT_EQ(train({"job.toml", "--resume", "--set", "job.epochs=2"}).at("event"), "finished");
}

TEST_F(DataCommands, InitOverwritesNeitherDataNorAJob) {
  const std::string table = "n,class\n1,a\n2,b\n3,a\n4,b\n";
  testing::spill(folder_ / "t.csv", table);
  std::filesystem::create_symlink("t.csv", folder_ / "link.csv");
  for (const char* output : {"t.csv", "./t.csv", "link.csv"}) {
    const Finished refused = muster({"init", "t.csv", "-o", output, "--force"});
    EXPECT_EQ(refused.exit_code, 2) << output;
    EXPECT_THAT(refused.err, HasSubstr("would be overwritten")) << output;
  }
  EXPECT_EQ(testing::slurp(folder_ / "t.csv"), table);
  ASSERT_EQ(muster({"init", "t.csv"}).exit_code, 0);
  const std::string job = testing::slurp(folder_ / "t.toml");
  const Finished again = muster({"init", "t.toml", "--force"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, AllOf(HasSubstr("is a job file"), HasSubstr("muster train t.toml")));
  EXPECT_EQ(testing::slurp(folder_ / "t.toml"), job);
}

TEST_F(DataCommands, AnInitialisedJobMovesWithItsData) {
  std::filesystem::create_directories(folder_ / "project/jobs");
  std::filesystem::create_directories(folder_ / "far/away");
  const std::string table = "n,class\n1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n7,a\n8,b\n9,a\n10,b\n11,a\n12,b\n";
  testing::spill(folder_ / "project/t.csv", table);
  ASSERT_EQ(muster({"init", "project/t.csv", "-o", "project/below.toml"}).exit_code, 0);
  ASSERT_EQ(muster({"init", "project/t.csv", "-o", "project/jobs/beside.toml"}).exit_code, 0);
  ASSERT_EQ(muster({"init", "project/t.csv", "-o", "far/away/job.toml"}).exit_code, 0);
  EXPECT_THAT(testing::slurp(folder_ / "project/below.toml"), HasSubstr("path = \"t.csv\""));
  EXPECT_THAT(testing::slurp(folder_ / "project/jobs/beside.toml"), HasSubstr("path = \"../t.csv\""));
  EXPECT_THAT(testing::slurp(folder_ / "far/away/job.toml"),
              HasSubstr("path = \"" + std::filesystem::absolute(folder_ / "project/t.csv").string() + "\""));
  std::filesystem::rename(folder_ / "project", folder_ / "moved");
  for (const char* job : {"moved/below.toml", "moved/jobs/beside.toml"}) {
    const Finished checked = muster({"check", job, "--set", "data.validation=0", "--set", "data.test_fraction=0.5"});
    EXPECT_EQ(checked.exit_code, 0) << checked.err;
  }
}

TEST_F(DataCommands, InitLooksAtPictures) {
  for (int i = 0; i < 12; ++i)
    testing::spill_bmp(folder_ / fmt::format("pets/{}/{}.bmp", i % 2 == 0 ? "cat" : "dog", i), i % 2 == 0 ? 40 : 200);
  ASSERT_EQ(muster({"init", "pets", "-o", "whole.toml"}).exit_code, 0);
  EXPECT_THAT(testing::slurp(folder_ / "whole.toml"), ::testing::Not(HasSubstr("on_bad_sample")));
  testing::spill(folder_ / "pets/cat/broken.bmp", "no picture");
  const Finished init = muster({"init", "pets"});
  ASSERT_EQ(init.exit_code, 0) << init.err;
  EXPECT_THAT(init.out, AllOf(HasSubstr("note: 1 bad sample, the first: "), HasSubstr("broken.bmp")));
  EXPECT_THAT(testing::slurp(folder_ / "pets.toml"), HasSubstr("on_bad_sample = \"skip\"     # 1 cannot be used"));
}

TEST_F(DataCommands, CheckNamesEveryPictureThatCannotBeUsed) {
  for (int i = 0; i < 12; ++i)
    testing::spill_bmp(folder_ / fmt::format("pets/{}/{}.bmp", i % 2 == 0 ? "cat" : "dog", i), i % 2 == 0 ? 40 : 200);
  const std::vector<std::string> command{
      "data", "check", "pictures", "--path", "pets", "--set", "data.shape=[3, 16, 16]"};
  const Finished good = muster(command);
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("0 bad of 12 samples"));
  testing::spill(folder_ / "pets/cat/broken.bmp", "no picture");
  const std::string whole = testing::slurp(folder_ / "pets/dog/1.bmp");
  testing::spill(folder_ / "pets/dog/cut.bmp", whole.substr(0, whole.size() / 2));
  testing::spill(folder_ / "pets/dog/moving.gif", "GIF89a");
  const Finished bad = muster(command);
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("pets/cat/broken.bmp: "), HasSubstr("pets/dog/cut.bmp: "),
                             HasSubstr("2 bad of 14 samples"), HasSubstr("gif")));
  EXPECT_THAT(bad.err, HasSubstr("on_bad_sample"));
  const Json row = rows(muster({"data", "check", "pets", "--json"}).out).at(0);
  EXPECT_EQ(row.at("bad_samples"), 2) << "by the folder alone: " << row;
}

TEST_F(DataCommands, PicturesWithLabelsInATableTrain) {
  std::string table = "picture,ignored,kind\n";
  for (int i = 0; i < 40; ++i) {
    testing::spill_bmp(folder_ / fmt::format("photos/{}/{}.bmp", i % 3, i), i % 2 == 0 ? 40 : 200);
    table += fmt::format("{}/{}{},x,{}\n", i % 3, i, i % 5 == 0 ? "" : ".bmp", i % 2 == 0 ? "dark" : "light");
  }
  testing::spill(folder_ / "photos.csv", table);
  testing::spill(folder_ / "job.toml",
                 "[job]\nname = \"photos\"\nepochs = 8\n[data]\nsource = \"pictures\"\npath = \"photos\"\n"
                 "labels = \"photos.csv\"\nfile_column = \"picture\"\ntarget = \"kind\"\nshape = [3, 16, 16]\n"
                 "batch = 8\n[model]\nname = \"mlp\"\nhidden = [8]\n[optimizer]\nname = \"adam\"\nlr = 0.01\n");
  const Json end = train({"job.toml"});
  EXPECT_EQ(end.at("test_accuracy"), 1.0) << "dark and light are told apart: " << end;
  // The names of the classes are the table's.
  const std::string run = end.at("run");
  const Finished predicted = muster({"predict", run, "--data", "photos/0/0.bmp", "photos/1/1.bmp", "--out", "-"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_THAT(predicted.out, AllOf(HasSubstr("0.bmp,dark"), HasSubstr("1.bmp,light")));
  testing::spill(folder_ / "photos.csv", table + "nowhere.bmp,x,dark\n");
  const Finished missing = muster({"train", "job.toml"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("nowhere.bmp"));
}

TEST_F(DataCommands, InitDoesAsItIsToldOnTheCommandLine) {
  std::string table = "size,rooms\n";
  for (int i = 0; i < 60; ++i)
    table += fmt::format("{}.5,{}\n", i, i % 4);
  testing::spill(folder_ / "t.csv", table);
  ASSERT_EQ(muster({"init", "t.csv", "-o", "classes.toml", "--task", "classification"}).exit_code, 0);
  ASSERT_EQ(muster({"init", "t.csv", "-o", "numbers.toml", "--task", "regression"}).exit_code, 0);
  EXPECT_THAT(testing::slurp(folder_ / "classes.toml"), ::testing::Not(HasSubstr("regression")));
  EXPECT_THAT(testing::slurp(folder_ / "numbers.toml"), HasSubstr("task = \"regression\""));
  for (const char* job : {"classes.toml", "numbers.toml"})
    EXPECT_EQ(muster({"check", job}).exit_code, 0) << job;
  EXPECT_EQ(muster({"init", "t.csv", "-o", "no.toml", "--task", "guessing"}).exit_code, 2);
  for (int i = 0; i < 12; ++i)
    testing::spill_bmp(folder_ / fmt::format("pets/{}/{}.bmp", i % 2 == 0 ? "cat" : "dog", i), 100);
  ASSERT_EQ(muster({"init", "pets", "--shape", "1,8,12"}).exit_code, 0);
  EXPECT_THAT(testing::slurp(folder_ / "pets.toml"), HasSubstr("shape = [1, 8, 12]"));
  EXPECT_EQ(muster({"check", "pets.toml"}).exit_code, 0);
  for (const char* shape : {"8", "1,8", "2,8,8", "1,0,8"})
    EXPECT_EQ(muster({"init", "pets", "-o", "no.toml", "--shape", shape}).exit_code, 2) << shape;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no.toml"));
}

TEST_F(DataCommands, KeysOfOtherSourcesAreRefused) {
  testing::spill(folder_ / "job.toml", "[data]\nsource = \"csv\"\npath = \"t.csv\"\nwindow = 8\n");
  const Finished result = muster({"check", "job.toml"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("data.window"), HasSubstr("has no effect with source \"csv\"")));
}

}  // namespace
}  // namespace muster
