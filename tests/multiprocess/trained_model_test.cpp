// What one does with a model after training: evaluate, predict, generate; all from the run's folder, the training data
// gone.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/random.h"
#include "support/bmp_file.h"
#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::rows;
using testing::run_program;
using testing::TemporaryFolder;

class TrainedModel : public ::testing::Test {
 protected:
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }
  // The last row of a training run; its folder is run_.
  Json train(const std::string& job) {
    testing::spill(folder_ / "job.toml", job);
    const Finished result = muster({"train", "job.toml", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json last = rows(result.out).back();
    run_ = last.at("run");
    return last;
  }
  // Points of a plane, labelled by the quadrant; without labels for `rows` that are to be predicted.
  std::string points(int count, std::uint64_t seed, bool labels) {
    std::string text = labels ? "x,y,quadrant\n" : "x,y\n";
    RandomStream draw({.seed = seed});
    for (int i = 0; i < count; ++i) {
      const double x = draw.uniform() * 2 - 1;
      const double y = draw.uniform() * 2 - 1;
      text += fmt::format("{},{}", x, y);
      text += labels ? fmt::format(",{}\n", quadrant(x, y)) : "\n";
    }
    return text;
  }
  static std::string quadrant(double x, double y) { return fmt::format("{}-{}", y > 0 ? "N" : "S", x > 0 ? "E" : "W"); }
  static std::vector<std::string> lines(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::vector<std::string> list;
    for (std::string line; std::getline(file, line);)
      list.push_back(line);
    return list;
  }

  const TemporaryFolder folder_;
  std::string run_;
};

constexpr const char* kPoints =
    "[job]\nname = \"points\"\nepochs = 8\n[data]\nsource = \"csv\"\npath = \"points.csv\"\nvalidation = 0.1\n"
    "[model]\nname = \"mlp\"\nhidden = [16]\n[optimizer]\nname = \"adam\"\nlr = 0.01\n";

TEST_F(TrainedModel, IsEvaluatedToTheFiguresOfItsRunAndOnOtherData) {
  testing::spill(folder_ / "points.csv", points(2000, 1, true));
  const Json trained = train(kPoints);
  const Finished same = muster({"evaluate", run_, "--last", "--json"});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  const Json row = rows(same.out).back();
  EXPECT_EQ(row.at("loss"), trained.at("test_loss"));
  EXPECT_EQ(row.at("accuracy"), trained.at("test_accuracy"));
  // The same weights as a file for Python.
  ASSERT_EQ(muster({"model", "convert", run_, "net.pth", "--last"}).exit_code, 0);
  const Finished file = muster({"evaluate", "net.pth", "--run", run_, "--json"});
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(rows(file.out).back().at("loss"), row.at("loss"));
  // Its worst samples are rows of the file, though a part of it is held out.
  EXPECT_THAT(muster({"evaluate", run_, "--worst", "1"}).out, HasSubstr("/points.csv:"));
  std::filesystem::remove(folder_ / "points.csv");
  testing::spill(folder_ / "new.csv", points(500, 2, true));
  const Finished other = muster({"evaluate", run_, "--data", "new.csv", "--out", "report", "--worst", "3"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.out, AllOf(HasSubstr("samples  500"), HasSubstr("S-W"), HasSubstr("taken for")));
  EXPECT_THAT(muster({"evaluate", run_, "--data", "new.csv", "--worst", "500"}).out,
              AllOf(HasSubstr("N-E, answered rightly"), ::testing::Not(HasSubstr("N-E taken for N-E"))));
  EXPECT_EQ(lines(folder_ / "report/confusion.csv").front(), "class,N-E,N-W,S-E,S-W");
  const std::vector<std::string> worst = lines(folder_ / "report/worst.csv");
  ASSERT_EQ(worst.size(), 4U);
  EXPECT_THAT(worst[1], ::testing::StartsWith("new.csv:"));
  EXPECT_THAT(testing::slurp(folder_ / "report/confusion.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(testing::slurp(folder_.path() / run_ / "card.md"), HasSubstr("accuracy"));
}

TEST_F(TrainedModel, PredictsWhatHasNoLabelsAsItWouldWithThem) {
  testing::spill(folder_ / "points.csv", points(2000, 1, true));
  train(kPoints);
  std::filesystem::remove(folder_ / "points.csv");
  testing::spill(folder_ / "bare.csv", points(300, 3, false));
  testing::spill(folder_ / "more.csv", points(20, 4, false));
  const Finished result =
      muster({"predict", run_, "--data", "bare.csv", "more.csv", "--out", "answers.csv", "--probabilities"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> answers = lines(folder_ / "answers.csv");
  ASSERT_EQ(answers.size(), 321U);
  EXPECT_EQ(answers[0], "sample,class,probability,p:N-E,p:N-W,p:S-E,p:S-W");
  const std::vector<std::string> truth = lines([&] {
    testing::spill(folder_ / "truth.csv", points(300, 3, true));
    return folder_ / "truth.csv";
  }());
  int right = 0;
  for (int i = 1; i <= 300; ++i) {
    EXPECT_THAT(answers[static_cast<std::size_t>(i)], HasSubstr(fmt::format("bare.csv:{},", i + 1)));
    const std::string& point = truth[static_cast<std::size_t>(i)];
    right +=
        answers[static_cast<std::size_t>(i)].find("," + point.substr(point.rfind(',') + 1) + ",") != std::string::npos;
  }
  EXPECT_GT(right, 285);
  const Finished compared = muster({"evaluate", run_, "--data", "bare.csv"});
  EXPECT_EQ(compared.exit_code, 2);
  EXPECT_THAT(compared.err, HasSubstr("muster predict"));
}

// A rate that is far too high after a good start: the best checkpoint is not the last one.
TEST_F(TrainedModel, IsTheBestCheckpointForEveryCommandUnlessToldOtherwise) {
  testing::spill(folder_ / "points.csv", points(600, 1, true));
  train(
      "[job]\nname = \"points\"\nepochs = 3\n[data]\nsource = \"csv\"\npath = \"points.csv\"\nvalidation = 0.2\n"
      "[model]\nname = \"mlp\"\nhidden = [8]\n[optimizer]\nlr = 0.05\nschedule = \"step\"\nmilestones = [1]\n"
      "gamma = 2000\n");
  std::vector<std::uint64_t> steps;
  for (const Json& row : rows(testing::slurp(folder_.path() / run_ / "metrics.jsonl")))
    if (row.value("event", "") == "validation") steps.push_back(row.at("step").get<std::uint64_t>());
  ASSERT_EQ(steps.size(), 3U);
  const std::string first = fmt::format("step {}, the best of the run", steps[0]);
  const std::string last = fmt::format("step {}, the last of the run", steps[2]);
  const auto hash = [&](std::vector<std::string> flags, const std::string& said) {
    std::vector<std::string> words{"model", "show", run_, "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Json row = rows(muster(words).out).at(0);
    EXPECT_THAT(row.at("notes").dump(), HasSubstr(said));
    return row.at("contents").get<std::string>();
  };
  const std::string best = hash({}, first);
  EXPECT_EQ(best, hash({"--best"}, first));
  EXPECT_EQ(best, hash({"--step", std::to_string(steps[0])}, "as asked for"));
  EXPECT_NE(best, hash({"--last"}, last));
  const Finished converted = muster({"model", "convert", run_, "net.safetensors"});
  EXPECT_THAT(converted.out, HasSubstr(first)) << converted.err;
  EXPECT_THAT(muster({"model", "show", "net.safetensors"}).out, HasSubstr(best));
  EXPECT_THAT(muster({"evaluate", run_}).out, HasSubstr(first));
  EXPECT_THAT(muster({"evaluate", run_, "--last"}).out, HasSubstr(last));
  EXPECT_THAT(muster({"predict", run_, "--data", "points.csv", "--out", "answers.csv"}).err, HasSubstr(first));
  const std::string card = testing::slurp(folder_.path() / run_ / "card.md");
  EXPECT_THAT(card, AllOf(HasSubstr(fmt::format("test (step {}, the last)", steps[2])),
                          HasSubstr(fmt::format("best checkpoint | step {},", steps[0]))));
  const Finished none = muster({"evaluate", run_, "--step", "7777"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("7777"), HasSubstr(std::to_string(steps[2]))));
  EXPECT_NE(muster({"evaluate", run_, "--best", "--last"}).exit_code, 0);
  // One checkpoint leaves nothing to choose.
  const std::string one = fmt::format("{}/checkpoints/step-{:012}", run_, steps[0]);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"evaluate", one, "--last"}, {"model", "convert", one, "one.pth", "--step", "3"}}) {
    const Finished refused = muster(command);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("choose among the checkpoints of a run"));
  }
}

TEST_F(TrainedModel, ConvertDoesNotWriteOverWhatItReads) {
  testing::spill(folder_ / "points.csv", points(400, 1, true));
  const Json last = train(kPoints);
  ASSERT_EQ(muster({"model", "convert", run_, "net.pth"}).exit_code, 0);
  std::filesystem::create_symlink("net.pth", folder_ / "link.pth");
  const std::string before = testing::slurp(folder_ / "net.pth");
  const std::string checkpoint = fmt::format("{}/checkpoints/step-{:012}", run_, last.at("step").get<std::uint64_t>());
  const std::vector<std::vector<std::string>> commands{
      {"net.pth", "net.pth"},
      {"net.pth", "./link.pth"},
      {"net.pth", "net.pth", "--to", "safetensors"},
      {checkpoint, checkpoint + "/model.safetensors"},
      {checkpoint, "new.pth", "--optimizer", checkpoint + "/optimizer.safetensors"},
      {checkpoint, "new.pth", "--optimizer", "./new.pth"},
  };
  for (std::vector<std::string> command : commands) {
    command.insert(command.begin(), {"model", "convert"});
    const Finished refused = muster(command);
    EXPECT_EQ(refused.exit_code, 2) << fmt::format("{}: {}", fmt::join(command, " "), refused.out);
    EXPECT_THAT(refused.err, HasSubstr("Name another file"));
  }
  EXPECT_EQ(testing::slurp(folder_ / "net.pth"), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new.pth"));
}

TEST_F(TrainedModel, AnOldFileOfPredictionsStaysUntilTheNewOneIsWhole) {
  testing::spill(folder_ / "points.csv", points(400, 1, true));
  train(kPoints);
  testing::spill(folder_ / "good.csv", points(5, 3, false));
  testing::spill(folder_ / "bad.csv", points(5, 3, false) + "1,2,3,4\n");
  testing::spill(folder_ / "answers.csv", "precious\n");
  const Finished bad = muster({"predict", run_, "--data", "good.csv", "bad.csv", "--out", "answers.csv"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.csv:7"));
  EXPECT_EQ(testing::slurp(folder_ / "answers.csv"), "precious\n");
  EXPECT_EQ(muster({"predict", run_, "--data", "none.csv", "--out", "new.csv"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new.csv"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_FALSE(entry.path().filename().string().ends_with(".tmp")) << entry.path();
  // A link stays one, and what is no file is written into.
  std::filesystem::create_symlink("answers.csv", folder_ / "link.csv");
  EXPECT_EQ(muster({"predict", run_, "--data", "good.csv", "--out", "link.csv"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.csv"));
  EXPECT_EQ(lines(folder_ / "answers.csv").size(), 6U);
  EXPECT_EQ(muster({"predict", run_, "--data", "good.csv", "--out", "/dev/null"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

TEST_F(TrainedModel, WritesOverNothingThatItReads) {
  testing::spill(folder_ / "points.csv", points(200, 1, true));
  train(kPoints);
  testing::spill(folder_ / "new.csv", points(5, 3, false));
  const std::string job = testing::slurp(folder_.path() / run_ / "job.toml");
  std::filesystem::create_hard_link(folder_ / "new.csv", folder_ / "other-name.csv");
  for (const std::string& out : {std::string("new.csv"), std::string("other-name.csv"), std::string("points.csv"),
                                 run_ + "/job.toml", run_ + "/metrics.jsonl"}) {
    const Finished refused = muster({"predict", run_, "--data", "new.csv", "--out", out});
    EXPECT_EQ(refused.exit_code, 2) << out;
    EXPECT_THAT(refused.err, HasSubstr("would be overwritten")) << out;
  }
  EXPECT_EQ(testing::slurp(folder_.path() / run_ / "job.toml"), job);
  EXPECT_EQ(lines(folder_ / "new.csv").size(), 6U);
  for (int twice = 0; twice < 2; ++twice)
    EXPECT_EQ(muster({"predict", run_, "--data", "new.csv", "--out", run_ + "/answers.csv"}).exit_code, 0);
  const Finished printed = muster({"predict", run_, "--data", "new.csv", "--out", "-"});
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_EQ(printed.out, testing::slurp(folder_.path() / run_ / "answers.csv"));
}

// What stopped a run that never had a checkpoint does not stand in the way of the one before.
TEST_F(TrainedModel, IsTheNewestRunThatHasACheckpoint) {
  testing::spill(folder_ / "points.csv", points(200, 1, true));
  train(kPoints);
  std::filesystem::create_directories(folder_.path() / "runs/points-29990101-000000");
  testing::spill(folder_.path() / "runs/points-29990101-000000/job.toml",
                 testing::slurp(folder_.path() / run_ / "job.toml"));
  for (const Finished& result : {muster({"evaluate", "points"}), muster({"model", "show", "points"})}) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("points-29990101-000000 is newer and has no checkpoint"),
                                  HasSubstr(std::filesystem::path(run_).filename().string() + " is taken")));
  }
}

TEST_F(TrainedModel, SkipsWhatCannotBeReadAndSaysWhatItWas) {
  for (int i = 0; i < 24; ++i)
    testing::spill_bmp(folder_ / fmt::format("pets/{}/{}.bmp", i % 2 == 0 ? "cat" : "dog", i), i % 2 == 0 ? 40 : 200);
  constexpr const char* kJob =
      "[job]\nname = \"pets\"\nepochs = 1\n[data]\nsource = \"pictures\"\npath = \"pets\"\nshape = [3, 16, 16]\n"
      "batch = 8\non_bad_sample = \"{}\"\n[model]\nname = \"mlp\"\nhidden = [4]\n";
  train(fmt::format(kJob, "skip"));
  testing::spill_bmp(folder_ / "good.bmp", 40);
  testing::spill(folder_ / "broken.bmp", "no picture");
  const Finished mixed = muster({"predict", run_, "--data", "good.bmp", "broken.bmp", "pets/cat", "--out", "a.csv"});
  ASSERT_EQ(mixed.exit_code, 0) << mixed.err;
  EXPECT_EQ(lines(folder_ / "a.csv").size(), 14U);
  EXPECT_THAT(mixed.err, AllOf(HasSubstr("1 bad sample skipped, as the run's"), HasSubstr("broken.bmp: ")));
  const Finished none = muster({"predict", run_, "--data", "broken.bmp", "--out", "none.csv"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("broken.bmp: "), HasSubstr("nothing is written")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.csv"));
  // As the run skips, so does its evaluation, of its own data and of others.
  testing::spill(folder_ / "pets/cat/damaged.bmp", "no picture");
  const Finished skipping = muster({"evaluate", run_, "--data", "pets"});
  EXPECT_EQ(skipping.exit_code, 0) << skipping.err;
  EXPECT_THAT(skipping.err + skipping.out, HasSubstr("1 bad sample skipped, as the run's"));
  std::filesystem::remove(folder_ / "pets/cat/damaged.bmp");
  // A run that does not skip can be told to.
  train(fmt::format(kJob, "fail"));
  const Finished strict = muster({"predict", run_, "--data", "good.bmp", "broken.bmp", "--out", "b.csv"});
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_THAT(strict.err, AllOf(HasSubstr("broken.bmp"), HasSubstr("--skip-bad"), Not(HasSubstr("on_bad_sample"))));
  const Finished told = muster({"predict", run_, "--data", "good.bmp", "broken.bmp", "--out", "b.csv", "--skip-bad"});
  ASSERT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(lines(folder_ / "b.csv").size(), 2U);
  EXPECT_THAT(told.err, HasSubstr("1 bad sample skipped, as --skip-bad says"));
  testing::spill(folder_ / "pets/dog/broken.bmp", "no picture");
  const Finished evaluated = muster({"evaluate", run_, "--data", "pets"});
  EXPECT_EQ(evaluated.exit_code, 2);
  EXPECT_THAT(evaluated.err, HasSubstr("--skip-bad"));
  EXPECT_EQ(muster({"evaluate", run_, "--data", "pets", "--skip-bad"}).exit_code, 0);
}

TEST_F(TrainedModel, OfNumbersNamesTheErrorOfItsWorstSamples) {
  std::string table = "x,y\n";
  for (int i = 0; i < 100; ++i)
    table += fmt::format("{},{}\n", i, 2 * i);
  testing::spill(folder_ / "points.csv", table);
  train(
      "[job]\nname = \"line\"\nepochs = 1\n[data]\nsource = \"csv\"\npath = \"points.csv\"\n[loss]\n"
      "task = \"regression\"\n[model]\nname = \"mlp\"\nhidden = [4]\n");
  const Finished result = muster({"evaluate", run_, "--worst", "1", "--out", "report"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("points.csv:[0-9]+  error [0-9]"));
  EXPECT_EQ(lines(folder_ / "report/worst.csv").at(0), "sample,error");
}

TEST_F(TrainedModel, PredictionsThatAreStoppedLeaveNothingBehind) {
  testing::spill(folder_ / "points.csv", points(200, 1, true));
  train(kPoints);
  testing::spill(folder_ / "many.csv", points(400000, 3, false));
  std::vector<std::string> arguments{"predict", run_, "--out", "answers.csv", "--data"};
  arguments.resize(arguments.size() + 20, "many.csv");  // again and again: it has to last until it is stopped
  for (const int signal : {SIGINT, SIGTERM}) {
    testing::Program program(folder_.path(), arguments);
    const auto leftovers = [&] {
      std::size_t count = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
        count += entry.path().filename().string().ends_with(".tmp");
      return count;
    };
    ASSERT_TRUE(testing::eventually([&] { return leftovers() == 1; })) << "it does not begin";
    program.signal(signal);
    EXPECT_EQ(program.wait().exit_code, 128 + signal);
    EXPECT_EQ(leftovers(), 0U);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "answers.csv"));
  }
}

TEST_F(TrainedModel, SaysWhatInATableItWasNotTrainedOn) {
  std::string table = "work,n,class\n";
  for (int i = 0; i < 200; ++i)
    table += fmt::format("{},{},{}\n", i % 2 == 0 ? "Private" : "State", i % 7, i % 2 == 0 ? "a" : "b");
  testing::spill(folder_ / "points.csv", table);
  train(kPoints);
  testing::spill(folder_ / "new.csv", "n,day,work\n1,x, Private\n2,y,Federal\n3,z,Private\n");
  const Finished result = muster({"predict", run_, "--data", "new.csv", "--out", "answers.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("warning: "), HasSubstr("1 of 3 rows"), HasSubstr("\"Federal\""), HasSubstr("\"day\"")));
  const std::vector<std::string> answers = lines(folder_ / "answers.csv");
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_THAT(answers[1], HasSubstr(",a,"));
  EXPECT_THAT(answers[3], HasSubstr("new.csv:4,a,"));
}

TEST_F(TrainedModel, OfTextWritesTheSameTextForTheSameSeed) {
  std::string text;
  while (text.size() < 8000)
    text += "abcdefg";  // one less than a window, so that every place sees every letter
  testing::spill(folder_ / "text.txt", text);
  train(
      "[job]\nname = \"text\"\nsteps = 80\n[data]\nsource = \"text\"\npath = \"text.txt\"\nwindow = 8\nbatch = 32\n"
      "[loss]\ntask = \"language\"\n[model]\nwidth = 32\ndepth = 1\nheads = 2\n[optimizer]\nname = \"adamw\"\nlr = "
      "0.01\n");
  std::filesystem::remove(folder_ / "text.txt");
  const Finished likely = muster({"generate", run_, "--prompt", "cd", "--length", "12", "--temperature", "0"});
  ASSERT_EQ(likely.exit_code, 0) << likely.err;
  EXPECT_EQ(likely.out, "cdefgabcdefgab\n");
  std::filesystem::create_directory(folder_ / "text");  // of data, perhaps
  EXPECT_EQ(muster({"generate", "text", "--prompt", "cd", "--length", "12", "--temperature", "0"}).out, likely.out)
      << "by the name of the job";
  const auto drawn = [&](const char* seed) {
    return muster({"generate", run_, "--prompt", "a", "--length", "40", "--temperature", "5", "--seed", seed}).out;
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
  const Finished strange = muster({"generate", run_, "--prompt", "Z"});
  EXPECT_EQ(strange.exit_code, 2);
  EXPECT_THAT(strange.err, AllOf(HasSubstr("\"Z\""), HasSubstr("abcdefg")));
  EXPECT_EQ(muster({"predict", run_, "--data", "job.toml", "--out", "x.csv"}).exit_code, 2);
  // Other text, by the vocabulary in the model card: the same order is expected, the reverse is a surprise.
  testing::spill(folder_ / "same.txt", "cdefgabcdefgabcdefgabcdefg");
  testing::spill(folder_ / "reverse.txt", "gfedcbagfedcbagfedcbagfedc");
  const auto loss_of = [&](const char* file) {
    const Finished result = muster({"evaluate", run_, "--data", file, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return testing::rows(result.out).at(0).at("loss").get<double>();
  };
  EXPECT_LT(loss_of("same.txt") + 1, loss_of("reverse.txt"));
  testing::spill(folder_ / "strange.txt", "abcdefgabcdefgh");
  const Finished unknown = muster({"evaluate", run_, "--data", "strange.txt"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("strange.txt:1"), HasSubstr("\"h\"")));
}

TEST_F(TrainedModel, WhatIsNoRunIsRefusedWithWhatToGive) {
  testing::spill(folder_ / "file.safetensors", "x");
  const Finished file = muster({"evaluate", "file.safetensors"});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.err, HasSubstr("--run RUN"));
  EXPECT_EQ(muster({"evaluate", "nothing"}).exit_code, 2);
}

}  // namespace
}  // namespace muster
