// A TorchScript model through the real program: trained, stopped, resumed, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/scripts.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;
using testing::spill;

class ScriptTest : public ::testing::Test {
 protected:
  ScriptTest() {
    spill(folder_ / "job.toml",
          testing::small_job("scripted", {"job.epochs=3", "job.lanes=", "data.shape=[1, 8, 8]", "data.samples=512",
                                          "data.test_samples=128", "model.script=\"model.ts\"",
                                          "model.name=", "model.hidden=", "optimizer.lr=0.1"}));
    testing::save_script_classifier(folder_ / "model.ts", 64, 10, 0.2);
  }
  Finished muster(std::vector<std::string> arguments) { return run_program(folder_.path(), std::move(arguments)); }
  // The last row of a run that must succeed.
  Json result_of(std::vector<std::string> arguments) {
    const Finished finished = muster(std::move(arguments));
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? rows(finished.out).back() : Json::object();
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(ScriptTest, LearnsAndTheSeedDecidesItsDropout) {
  const Json first = result_of({"train", "job.toml", "--json"});
  EXPECT_GT(first.at("test_accuracy").get<double>(), 0.5);  // one in ten by chance
  const Json other = result_of({"train", "job.toml", "--json", "--set", "job.seed=2"});
  EXPECT_NE(first.at("weights"), other.at("weights"));
}

TEST_F(ScriptTest, AResumedRunEndsWithTheBitsOfOneThatWentOn) {
  const Json straight = result_of({"train", "job.toml", "--json", "--set", "job.name=straight"});
  result_of({"train", "job.toml", "--json", "--set", "job.steps=5"});
  const Json resumed = result_of({"train", "job.toml", "--json", "--resume"});
  EXPECT_EQ(resumed.at("weights"), straight.at("weights"));
}

TEST_F(ScriptTest, BadFilesAreTheUsersMistakeAndLeaveNoRun) {
  const std::string whole = testing::slurp(folder_ / "model.ts");
  spill(folder_ / "cut.ts", whole.substr(0, whole.size() / 2));
  testing::save_script_classifier(folder_ / "narrow.ts", 63, 10, 0);
  testing::save_script_classifier(folder_ / "few.ts", 64, 9, 0);
  testing::save_script_classifier(folder_ / "many.ts", 64, 12, 0);
  const std::vector<std::pair<std::string, std::string>> cases{{"none.ts", "none.ts"},
                                                               {"cut.ts", "cannot be read as TorchScript"},
                                                               {"narrow.ts", "does not take samples of 1x8x8"},
                                                               {"few.ts", "10 classes"},
                                                               {"many.ts", "10 classes"}};
  for (const auto& [file, message] : cases) {
    for (const char* command : {"train", "check"}) {
      const Finished refused = muster({command, "job.toml", "--set", "model.script=" + file});
      EXPECT_EQ(refused.exit_code, 2) << command << file;
      EXPECT_THAT(refused.err, AllOf(HasSubstr(file), HasSubstr(message))) << command;
      EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
    }
  }
}

TEST_F(ScriptTest, ATraceWithFrozenDropoutIsWarnedOf) {
  torch::jit::Module net = testing::script_module("Traced");
  net.register_module("linear", testing::script_linear("Linear", 64, 10));
  net.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "    return torch.dropout(self.linear.forward(torch.flatten(x, 1)), 0.5, False)\n");
  net.save((folder_ / "model.ts").string());
  for (const char* command : {"check", "train"}) {
    const Finished warned = muster({command, "job.toml"});
    EXPECT_EQ(warned.exit_code, 0) << command << warned.err;
    EXPECT_THAT(warned.err, AllOf(HasSubstr("warning: job.toml:"), HasSubstr("model.script: 1 dropout is fixed")))
        << command;
  }
}

TEST_F(ScriptTest, CheckKnowsTheKey) {
  const Finished good = muster({"check", "job.toml"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("/model.ts\"\n"));
  const Finished both = muster({"check", "job.toml", "--set", "model.name=mlp"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("model.script: cannot stand beside model.name"));
}

}  // namespace
}  // namespace muster
