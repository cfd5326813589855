// Teams: a job ends where one worker's does, within rounding, however its layers are divided, and with the same bits
// whenever the same mesh trains it. Dropout, which would show at once, is that of one worker, too.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/random.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string some_text() {
  RandomStream random({.seed = 3, .purpose = Purpose::kVerify});
  const std::vector<std::string> words{"lane ", "team ", "row ", "mesh ", "head ", "tree ", "arena "};
  std::string text;
  while (text.size() < 2600)
    text += words[random.below(words.size())];
  return text;
}

// 3 full batches and a short one an epoch, in 4 lanes.
std::string text_job(const std::string& model) {
  return "[job]\nname = \"teams\"\nsteps = 7\nlanes = 4\n"
         "[data]\nsource = \"text\"\npath = \"words.txt\"\nwindow = 24\nbatch = 24\nvalidation = 0.1\n"
         "[loss]\ntask = \"language\"\nlabel_smoothing = 0.1\n[optimizer]\nlr = 0.05\nclip_norm = 0.5\n" +
         model;
}

std::string picture_job(const std::string& model) {
  return "[job]\nname = \"teams\"\nsteps = 6\nlanes = 4\n"
         "[data]\nsource = \"synthetic\"\nshape = [1, 12, 12]\nsamples = 150\ntest_samples = 40\nbatch = 40\n"
         "validation = 0.1\n[optimizer]\nlr = 0.02\nmomentum = 0.9\n" +
         model;
}

const char* const kTransformer = "[model]\nname = \"transformer\"\nwidth = 18\ndepth = 2\nheads = 3\ndropout = 0.2\n";

class Teams : public ::testing::Test {
 protected:
  Teams() { testing::spill(folder_ / "words.txt", some_text()); }

  Json train(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train", "job.toml", "--json"};
    for (const std::string& argument : more) {
      if (!argument.starts_with("--")) arguments.emplace_back("--set");
      arguments.push_back(argument);
    }
    const testing::Finished result = testing::run_program(folder_.path(), arguments);
    EXPECT_EQ(result.exit_code, 0) << fmt::format("{}\n", fmt::join(more, " ")) << result.err;
    return result.exit_code == 0 ? testing::rows(result.out).back() : Json::object();
  }

  static void expect_near(const Json& together, const Json& alone, const std::string& what) {
    for (const char* key : {"best_loss", "test_loss"}) {
      const double expected = alone.at(key);
      EXPECT_NEAR(together.at(key).get<double>(), expected, 1e-5 * std::max(1.0, std::abs(expected)))
          << key << ": " << what;
    }
    EXPECT_EQ(together.at("step"), alone.at("step")) << what;
  }

  // Each of `ways` ends near to where one worker does.
  void expect_near(const std::string& job, const std::vector<std::vector<std::string>>& ways) {
    testing::spill(folder_ / "job.toml", job);
    const Json alone = train({"parallel.workers=1"});
    for (const std::vector<std::string>& way : ways)
      expect_near(train(way), alone, fmt::format("{}", fmt::join(way, " ")));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Teams, ATransformerTrainsAsWithOneWorkerAndHasTheSameBitsOnEveryRun) {
  testing::spill(folder_ / "job.toml", text_job(kTransformer));
  const Json alone = train({"parallel.workers=1"});
  const Json team = train({"parallel.mesh={tensor=2}"});
  expect_near(team, alone, "two members");
  EXPECT_EQ(train({"parallel.mesh={tensor=2}"}).at("weights"), team.at("weights"));
  // Who computes lanes and stages has nothing to do with how sums are divided.
  const Json mesh = train({"parallel.mesh={data=2, pipeline=2, tensor=2}", "model.recompute=true"});
  EXPECT_EQ(mesh.at("weights"), team.at("weights"));
  expect_near(train({"parallel.mesh={tensor=3}"}), alone, "three members");
}

TEST_F(Teams, PerceptronsAndWideResNetsTrainAsWithOneWorker) {
  expect_near(picture_job("[model]\nname = \"mlp\"\nhidden = [24, 17]\ndropout = 0.3\n"),
              {{"parallel.mesh={tensor=2}"}, {"parallel.mesh={data=2, tensor=2}"}});
  expect_near(picture_job("[model]\nname = \"wrn-10-1\"\ndropout = 0.3\n"),
              {{"parallel.mesh={tensor=2}"}, {"parallel.mesh={pipeline=2, tensor=2}", "parallel.schedule=gpipe"}});
}

TEST_F(Teams, ACheckpointOfATeamIsThatOfAnyJob) {
  testing::spill(folder_ / "job.toml", text_job(kTransformer));
  const Json alone = train({"job.runs=alone"});
  train({"job.runs=parts", "job.steps=2", "parallel.mesh={tensor=3}"});
  train({"job.runs=parts", "--resume", "job.steps=4", "parallel.mesh={pipeline=2, tensor=2}"});
  expect_near(train({"job.runs=parts", "--resume", "job.steps=7"}), alone, "three members, two by two, one worker");
}

TEST_F(Teams, RefusesWhatCannotBeDivided) {
  const auto refused = [&](const std::string& job, const std::string& mesh) {
    testing::spill(folder_ / "job.toml", job);
    const testing::Finished result =
        testing::run_program(folder_.path(), {"check", "job.toml", "--set", "parallel.mesh=" + mesh});
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    return result.err;
  };
  EXPECT_THAT(refused(text_job(kTransformer), "{tensor=4}"),
              AllOf(HasSubstr("4 members of a team cannot share h.0.attn.c_attn.weight"), HasSubstr("heads")));
  EXPECT_THAT(refused(picture_job("[model]\nname = \"resnet20\"\n"), "{tensor=2}"),
              AllOf(HasSubstr("cannot be divided"), HasSubstr("transformer, mlp")));
}

TEST_F(Teams, CheckDrawsWhoHoldsWhat) {
  testing::spill(folder_ / "job.toml", text_job(kTransformer));
  const testing::Finished result = testing::run_program(
      folder_.path(), {"check", "job.toml", "--set", "parallel.mesh={data=2, pipeline=2, tensor=2}"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("8 workers: data 2 x pipeline 2 x tensor 2"), HasSubstr("since they exchange"),
                    HasSubstr("stage 0 (rank 0 to 1, 4 to 5): embed"), HasSubstr("a member of its team: ")));
}

}  // namespace
}  // namespace muster
