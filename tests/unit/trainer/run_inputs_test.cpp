// Data that moved is the same, data that changed is not, within what the stamps look at.
#include "muster/trainer/run_inputs.h"

#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::spill;

class RunInputs : public ::testing::Test {
 protected:
  RunInputs() {
    std::filesystem::create_directories(folder_ / "run");
    spill(folder_ / "table.csv", "n,y\n1,a\n2,b\n");
    job_.data.source = "csv";
    job_.data.path = (folder_ / "table.csv").string();
  }
  void remember() { remember_inputs(folder_ / "run", job_); }
  // What is said when the run is resumed.
  std::optional<Error> obstacle() {
    try {
      check_inputs(folder_ / "run", job_);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  const testing::TemporaryFolder folder_;
  Job job_;
};

TEST_F(RunInputs, WhatIsTheSameIsAcceptedWhereverItLies) {
  remember();
  EXPECT_FALSE(obstacle());
  std::filesystem::rename(folder_ / "table.csv", folder_ / "moved.csv");
  job_.data.path = (folder_ / "moved.csv").string();
  EXPECT_FALSE(obstacle());
}

TEST_F(RunInputs, ALongerFileAndAnotherOfTheSameLengthAreNamed) {
  remember();
  spill(folder_ / "table.csv", "n,y\n1,a\n2,b\n3,a\n");
  const auto longer = obstacle();
  ASSERT_TRUE(longer);
  EXPECT_EQ(longer->kind(), ErrorKind::kMismatch);
  EXPECT_EQ(longer->where(), job_.data.path);
  EXPECT_THAT(longer->message(), AllOf(HasSubstr("data.path"), HasSubstr("12 bytes then"), HasSubstr("16 bytes now")));
  EXPECT_THAT(longer->remedy(), AllOf(HasSubstr("new run"), HasSubstr("inputs.json")));
  spill(folder_ / "table.csv", "n,y\n1,a\n9,b\n");
  ASSERT_TRUE(obstacle());
  EXPECT_THAT(obstacle()->message(), HasSubstr("other contents"));
}

TEST_F(RunInputs, TheEndsOfALargeFileCount) {
  std::string text(5'000'000, 'x');
  spill(folder_ / "table.csv", text);
  remember();
  for (const std::size_t at : {std::size_t{0}, text.size() - 1, text.size() / 3}) {
    std::string changed = text;
    changed[at] = 'y';
    spill(folder_ / "table.csv", changed);
    EXPECT_TRUE(obstacle()) << at;
  }
  spill(folder_ / "table.csv", text);
  EXPECT_FALSE(obstacle());
}

TEST_F(RunInputs, AFolderIsItsFilesNamesSizesAndContents) {
  std::filesystem::create_directories(folder_ / "texts" / "sub");
  spill(folder_ / "texts" / "a.txt", "one");
  spill(folder_ / "texts" / "sub" / "b.txt", "two");
  job_.data.path = (folder_ / "texts").string();
  remember();
  EXPECT_FALSE(obstacle());
  spill(folder_ / "texts" / "sub" / "b.txt", "six");
  EXPECT_TRUE(obstacle());
  spill(folder_ / "texts" / "sub" / "b.txt", "two");
  EXPECT_FALSE(obstacle());
  std::filesystem::rename(folder_ / "texts" / "a.txt", folder_ / "texts" / "c.txt");
  EXPECT_TRUE(obstacle());
}

TEST_F(RunInputs, TheScriptAndTheOtherSetsCountToo) {
  spill(folder_ / "net.pt", "code");
  spill(folder_ / "test.csv", "n,y\n1,a\n");
  job_.model.script = (folder_ / "net.pt").string();
  job_.data.test_path = (folder_ / "test.csv").string();
  remember();
  spill(folder_ / "net.pt", "mode");
  ASSERT_TRUE(obstacle());
  EXPECT_THAT(obstacle()->message(), HasSubstr("model.script"));
  spill(folder_ / "net.pt", "code");
  spill(folder_ / "test.csv", "n,y\n2,a\n");
  EXPECT_THAT(obstacle()->message(), HasSubstr("data.test_path"));
}

TEST_F(RunInputs, ARunOfWhichNothingWasWrittenDownIsAccepted) {
  EXPECT_FALSE(obstacle());
  job_ = Job();
  job_.data.source = "synthetic";
  remember();
  EXPECT_FALSE(obstacle());
}

}  // namespace
}  // namespace muster::trainer
