// Pipelines: a job ends with the bits of one worker however its model is cut and scheduled. With what makes that hard:
// dropout, tied weights, BatchNorm, clipping by the norm of all stages, ratios of each tensor, a short last batch.
#include <filesystem>
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

// 2,600 letters of few words: 3 full batches of 24 windows of 24 letters, and a short one.
std::string some_text() {
  RandomStream random({.seed = 3, .purpose = Purpose::kVerify});
  const std::vector<std::string> words{"lane ", "stage ", "row ", "mesh ", "part ", "tree ", "arena "};
  std::string text;
  while (text.size() < 2600)
    text += words[random.below(words.size())];
  return text;
}

std::string text_job(const std::string& model) {
  return "[job]\nname = \"stages\"\nsteps = 7\nlanes = 4\n"
         "[data]\nsource = \"text\"\npath = \"words.txt\"\nwindow = 24\nbatch = 24\nvalidation = 0.1\n"
         "[loss]\ntask = \"language\"\n" +
         model;
}

std::string picture_job(const std::string& model) {
  return "[job]\nname = \"stages\"\nsteps = 6\nlanes = 4\n"
         "[data]\nsource = \"synthetic\"\nshape = [1, 12, 12]\nsamples = 150\ntest_samples = 40\nbatch = 40\n"
         "validation = 0.1\n" +
         model;
}

class Pipeline : public ::testing::Test {
 protected:
  Pipeline() { testing::spill(folder_ / "words.txt", some_text()); }

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

  // Each of `ways` ends as one worker does.
  void expect_same(const std::string& job, const std::vector<std::vector<std::string>>& ways) {
    testing::spill(folder_ / "job.toml", job);
    const Json alone = train({"parallel.workers=1"});
    for (const std::vector<std::string>& way : ways) {
      const Json together = train(way);
      for (const char* key : {"weights", "best_loss", "test_loss", "step"})
        EXPECT_EQ(together.at(key), alone.at(key)) << key << ": " << fmt::format("{}", fmt::join(way, " "));
    }
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Pipeline, ATransformerWithDropoutAndTiedWeightsHasTheBitsOfOneWorker) {
  expect_same(text_job("[model]\nname = \"transformer\"\nwidth = 16\ndepth = 4\nheads = 2\ndropout = 0.2\n"
                       "[optimizer]\nname = \"lamb\"\nlr = 0.01\nclip_norm = 0.5\n"),
              {{"parallel.mesh={data=2, pipeline=1}"},
               {"parallel.mesh={pipeline=2}"},
               {"parallel.mesh={pipeline=2}", "parallel.schedule=gpipe"},
               {"parallel.mesh={pipeline=2}", "parallel.schedule=interleaved", "model.recompute=true"},
               {"parallel.mesh={data=2, pipeline=2}", "parallel.cut=[\"h.1\"]"},
               {"parallel.mesh={pipeline=4}"},
               {"parallel.mesh={pipeline=4}", "parallel.schedule=gpipe"}});
}

TEST_F(Pipeline, AResNetWithBatchNormHasTheBitsOfOneWorker) {
  expect_same(picture_job("[model]\nname = \"resnet20\"\n[optimizer]\nlr = 0.05\nmomentum = 0.9\nclip_norm = 1.0\n"),
              {{"parallel.mesh={data=2, pipeline=1}"},
               {"parallel.mesh={pipeline=2}"},
               {"parallel.mesh={pipeline=2}", "parallel.schedule=gpipe"},
               {"parallel.mesh={pipeline=2}", "parallel.schedule=interleaved", "parallel.chunks=3"},
               {"parallel.mesh={data=2, pipeline=2}"},
               {"parallel.mesh={pipeline=4}", "parallel.schedule=gpipe"},
               {"parallel.mesh={pipeline=4}"}});
}

TEST_F(Pipeline, ACnnAndAPerceptronWithDropoutHaveTheBitsOfOneWorker) {
  expect_same(picture_job("[model]\nname = \"cnn\"\ndropout = 0.2\n[optimizer]\nlr = 0.05\nmomentum = 0.9\n"),
              {{"parallel.mesh={pipeline=2}"},
               {"parallel.mesh={data=2, pipeline=2}", "parallel.cut=[\"head\"]"},
               {"parallel.mesh={pipeline=3}", "parallel.schedule=gpipe"}});
  expect_same(
      picture_job("[model]\nname = \"mlp\"\nhidden = [24, 24, 24, 24]\ndropout = 0.2\n[optimizer]\nlr = 0.05\n"),
      {{"parallel.mesh={pipeline=2}"}, {"parallel.mesh={pipeline=3}", "parallel.schedule=gpipe"}});
}

TEST_F(Pipeline, AnLstmWithDropoutHasTheBitsOfOneWorker) {
  expect_same(text_job("[model]\nname = \"lstm\"\nwidth = 12\ndepth = 3\nembedding = 8\ndropout = 0.2\n"
                       "[optimizer]\nname = \"adamw\"\nlr = 0.01\n"),
              {{"parallel.mesh={pipeline=2}"},
               {"parallel.mesh={data=2, pipeline=2}", "parallel.schedule=gpipe"},
               {"parallel.mesh={pipeline=4}", "parallel.schedule=gpipe"},
               {"parallel.mesh={pipeline=4}"}});
}

TEST_F(Pipeline, FrozenStagesPassOnNoGradients) {
  expect_same(
      text_job("[model]\nname = \"transformer\"\nwidth = 16\ndepth = 2\nheads = 2\nfreeze = [\"wte.*\", \"wpe.*\", "
               "\"h.0.*\"]\nunfreeze = [\"h.0.*=1\"]\n[optimizer]\nlr = 0.05\n"),
      {{"parallel.mesh={pipeline=2}", "parallel.cut=[\"h.1\"]"}});
}

TEST_F(Pipeline, ACheckpointOfOneMeshGoesOnInAnother) {
  testing::spill(folder_ / "job.toml", picture_job("[model]\nname = \"resnet20\"\n[optimizer]\nlr = 0.05\n"));
  const Json alone = train({"job.runs=alone"});
  train({"job.runs=parts", "job.steps=2", "parallel.mesh={pipeline=2}"});
  train({"job.runs=parts", "--resume", "job.steps=4", "parallel.mesh={pipeline=3}"});
  const Json end = train({"job.runs=parts", "--resume", "job.steps=6"});
  EXPECT_EQ(end.at("weights"), alone.at("weights"));
}

TEST_F(Pipeline, RefusesWhatCannotBe) {
  const auto refused = [&](const std::string& job, const std::vector<std::string>& more) {
    testing::spill(folder_ / "job.toml", job);
    std::vector<std::string> arguments{"check", "job.toml"};
    for (const std::string& assignment : more)
      arguments.insert(arguments.end(), {"--set", assignment});
    const testing::Finished result = testing::run_program(folder_.path(), arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    return result.err;
  };
  const std::string resnet = picture_job("[model]\nname = \"resnet20\"\n");
  EXPECT_THAT(refused(resnet, {"parallel.mesh={expert=2}"}), AllOf(HasSubstr("expert"), HasSubstr("data, pipeline")));
  EXPECT_THAT(refused(resnet, {"parallel.mesh={pipeline=2}", "parallel.workers=3"}), HasSubstr("the mesh has 2"));
  EXPECT_THAT(refused(resnet, {"parallel.mesh={pipeline=2}", "parallel.strategy=local_sgd"}),
              AllOf(HasSubstr("local_sgd has no pipelines"), HasSubstr("shared_sync")));
  EXPECT_THAT(refused(resnet, {"parallel.mesh={pipeline=2}", "parallel.hosts=2"}), HasSubstr("one host"));
  EXPECT_THAT(refused(resnet, {"parallel.mesh={pipeline=12}"}), HasSubstr("11 pieces cannot be cut into 12 parts"));
  EXPECT_THAT(refused(resnet, {"parallel.mesh={pipeline=2}", "parallel.cut=[\"layer2\"]"}),
              HasSubstr("no piece \"layer2\""));
  EXPECT_THAT(refused(resnet, {"parallel.schedule=gpipe"}), HasSubstr("without a pipeline"));
  EXPECT_THAT(refused(resnet, {"parallel.mesh={pipeline=2}", "parallel.chunks=2"}), HasSubstr("interleaved"));
  EXPECT_THAT(
      refused(picture_job("[model]\nname = \"fbnet_a\"\n"), {"data.shape=[3,32,32]", "parallel.mesh={pipeline=2}"}),
      HasSubstr("cannot be cut into stages"));
}

TEST_F(Pipeline, CheckDrawsWhoHoldsWhat) {
  testing::spill(folder_ / "job.toml", picture_job("[model]\nname = \"resnet20\"\n"));
  const testing::Finished result =
      testing::run_program(folder_.path(), {"check", "job.toml", "--set", "parallel.mesh={data=2, pipeline=2}"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("4 workers: data 2 x pipeline 2"), HasSubstr("stage 0 (rank 0, 2): stem to "),
                                HasSubstr("stage 1 (rank 1, 3): "), HasSubstr(" to head; parameters ")));
}

}  // namespace
}  // namespace muster
