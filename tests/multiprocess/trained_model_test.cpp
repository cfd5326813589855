// What one does with a model after training: evaluate, predict, generate; all from the run's folder, the training data
// gone.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "muster/base/random.h"
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
  const Finished same = muster({"evaluate", run_, "--checkpoint", "last", "--json"});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  const Json row = rows(same.out).back();
  EXPECT_EQ(row.at("loss"), trained.at("test_loss"));
  EXPECT_EQ(row.at("accuracy"), trained.at("test_accuracy"));
  // The same weights as a file for Python.
  ASSERT_EQ(muster({"model", "convert", run_, "net.pth"}).exit_code, 0);
  const Finished file = muster({"evaluate", "net.pth", "--run", run_, "--json"});
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_EQ(rows(file.out).back().at("loss"), row.at("loss"));
  std::filesystem::remove(folder_ / "points.csv");
  testing::spill(folder_ / "new.csv", points(500, 2, true));
  const Finished other = muster({"evaluate", run_, "--data", "new.csv", "--out", "report", "--worst", "3"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.out, AllOf(HasSubstr("samples  500"), HasSubstr("S-W"), HasSubstr("taken for")));
  EXPECT_EQ(lines(folder_ / "report/confusion.csv").front(), "class,N-E,N-W,S-E,S-W");
  EXPECT_EQ(lines(folder_ / "report/worst.csv").size(), 4U);
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
    EXPECT_THAT(answers[static_cast<std::size_t>(i)], HasSubstr(fmt::format("bare.csv:{},", i - 1)));
    const std::string& point = truth[static_cast<std::size_t>(i)];
    right +=
        answers[static_cast<std::size_t>(i)].find("," + point.substr(point.rfind(',') + 1) + ",") != std::string::npos;
  }
  EXPECT_GT(right, 285);
  const Finished compared = muster({"evaluate", run_, "--data", "bare.csv"});
  EXPECT_EQ(compared.exit_code, 2);
  EXPECT_THAT(compared.err, HasSubstr("muster predict"));
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
