// muster model list and muster bench models through the real program.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;

class ModelsTest : public ::testing::Test {
 protected:
  Finished muster(std::vector<std::string> arguments) {
    return testing::run_program(folder_.path(), std::move(arguments));
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(ModelsTest, ListsTheZoo) {
  const Finished text = muster({"model", "list"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("resnet50 "), HasSubstr("wrn-28-10 "), HasSubstr("wide_deep ")));
  for (const Json& row : rows(muster({"model", "list", "--json"}).out)) {
    EXPECT_TRUE(row.at("name").is_string());
    EXPECT_TRUE(row.at("options").is_array());
  }
}

TEST_F(ModelsTest, TellsWhatAModelCosts) {
  const Finished finished = muster({"model", "list", "resnet20", "--batch", "64", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const Json model = rows(finished.out).back();
  EXPECT_EQ(model.at("parameters"), 269'722);
  EXPECT_EQ(model.at("batch"), 64);
  EXPECT_EQ(model.at("memory").at("parameters"), 4 * 269'722);
  EXPECT_GT(model.at("memory").at("activations"), 64 * 19 * 16 * 32 * 32);  // 19 convolutions, most of 16 channels
  EXPECT_EQ(model.at("layers")[0].at("name"), "conv1");
  EXPECT_EQ(model.at("layers")[0].at("output"), (std::vector<int>{16, 32, 32}));
  const Json less = rows(muster({"model", "list", "resnet20", "--batch", "64", "--recompute", "--json"}).out).back();
  EXPECT_LT(less.at("memory").at("activations"), model.at("memory").at("activations"));
  const Json other =
      rows(muster({"model", "list", "wrn-10-1", "--input", "1x8x8", "--classes", "3", "--json"}).out).back();
  EXPECT_EQ(other.at("input"), (std::vector<int>{1, 8, 8}));
  EXPECT_EQ(other.at("layers").back().at("output"), std::vector<int>{3});
}

TEST_F(ModelsTest, IsATableForPeople) {
  const Finished text = muster({"model", "list", "cnn"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("parameters     207,226"), HasSubstr("memory "), HasSubstr("fc1 "),
                              HasSubstr("options        hidden, dropout, ")));
  const Finished tokens = muster({"model", "list", "gru", "--input", "8", "--vocabulary", "11"});
  EXPECT_THAT(tokens.out, HasSubstr("11 scores for each position"));
}

// Nobody is left with an old script that says only "no command".
TEST_F(ModelsTest, TheOldCommandIsRefusedAndNamesTheNewOne) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"models"}, {"models", "resnet20", "--json"}, {"models", "--help"}}) {
    const Finished finished = muster(arguments);
    EXPECT_EQ(finished.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(finished.out, "") << ::testing::PrintToString(arguments);
    EXPECT_THAT(finished.err, AllOf(HasSubstr("no command \"models\""), HasSubstr("muster model list")));
  }
}

TEST_F(ModelsTest, MistakesAreTheUsers) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"model", "list", "resnet8"}, "did you mean \"resnet18\"?"},
      {{"model", "list", "cnn", "--input", "3x"}, "is no shape"},
      {{"model", "list", "cnn", "--input", "3x-4x4"}, "is no shape"},
      {{"model", "list", "cnn", "--input", "3x4x4"}, "at least 1x8x8"},
      {{"model", "list", "cnn", "--vocabulary", "5"}, "does not read tokens"},
      {{"model", "list", "cnn", "--recompute"}, "no option recompute"},
      {{"model", "list", "wide_deep", "--input", "5"}, "come from a table"},
      {{"bench", "models", "--models", "resnet8"}, "there is no model"},
  };
  for (const auto& [arguments, message] : cases) {
    const Finished finished = muster(arguments);
    EXPECT_EQ(finished.exit_code, 2) << message;
    EXPECT_THAT(finished.err, HasSubstr(message));
  }
}

TEST_F(ModelsTest, BenchMeasuresForwardAndBackward) {
  const Finished finished = muster(
      {"bench", "models", "--models", "wide_deep,cnn", "--rounds", "1", "--steps", "1", "--batch", "2", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const auto found = rows(finished.out);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_GT(found[1].at("median_ms").get<double>(), 0);
  EXPECT_FALSE(found[1].contains("ratio"));
}

TEST_F(ModelsTest, BenchMeasuresRecomputationWhereAModelHasIt) {
  const std::vector<std::string> small{"--rounds", "1", "--steps", "1", "--batch", "2", "--recompute", "--json"};
  std::vector<std::string> command{"bench", "models", "--models", "resnet20"};
  command.insert(command.end(), small.begin(), small.end());
  const Finished finished = muster(command);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(rows(finished.out).at(0).at("recompute").get<bool>());
  command[3] = "mlp";
  EXPECT_EQ(muster(command).exit_code, 2);
}

// Every kind of net that the peer builds itself has as many parameters as ours, or it would be an error.
TEST_F(ModelsTest, BenchComparesWithPythonWhereThatIsInstalled) {
  if (std::system("/usr/bin/python3 -c 'import torch, torchvision' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "python3-torch and python3-torchvision are not installed";
  const Finished finished =
      muster({"bench", "models", "--models", "mlp,cnn,resnet18,resnet20,wrn-10-1,fbnet_a,lstm,transformer,wide_deep",
              "--against", "torch", "--rounds", "1", "--steps", "1", "--batch", "2", "--side", "32", "--json"});
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  const auto found = rows(finished.out);
  ASSERT_EQ(found.size(), 9u);
  for (const Json& row : found) {
    EXPECT_GT(row.at("ratio").get<double>(), 0) << row.at("model");
    EXPECT_GT(row.at("cpu_ratio").get<double>(), 0) << row.at("model");
  }
}

}  // namespace
}  // namespace muster
