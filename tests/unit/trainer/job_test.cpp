// The job file read, resolved and printed again, key by key.
#include "muster/trainer/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::string& text, std::vector<std::string> assignments = {}) {
  try {
    parse_job(text, "job.toml", assignments);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

TEST(Job, WhatIsNotSaidHasADefault) {
  const ResolvedJob resolved = parse_job("", "job.toml");
  EXPECT_EQ(resolved.batch, 64U);
  EXPECT_EQ(resolved.lanes, 2U);
  EXPECT_EQ(resolved.job.model.name, "cnn");
}

TEST(Job, DataInThePlaceOfAJobIsAnsweredWithTheCommandForIt) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "small.csv", "a,b\n1,2\n");
  testing::spill(folder / "large.csv", std::string(1 << 20, 'x'));
  std::filesystem::create_directory(folder / "pictures");
  for (const char* name : {"small.csv", "large.csv", "pictures"}) {
    try {
      load_job(folder / name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_THAT(error.what(), HasSubstr("muster init " + (folder / name).string()));
    }
  }
  testing::spill(folder / "job.toml", "a,b\n");
  try {
    load_job(folder / "job.toml");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("muster init")));
  }
}

TEST(Job, AFileThatSetsNothingIsRefused) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "job.toml";
  for (const char* text : {"", "# nothing\n", "[data]\n"}) {
    testing::spill(path, text);
    try {
      load_job(path);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("job.toml: the job file sets nothing"), HasSubstr("muster init")));
    }
    EXPECT_EQ(load_job(path, std::vector<std::string>{"job.epochs=2"}).job.epochs, 2) << "--set says something";
  }
  testing::spill(path, "[job]\nepochs = 10\n");
  EXPECT_EQ(load_job(path).job.epochs, 10) << "a default that is written down is meant";
}

TEST(Job, EveryKeyKeepsItsPlace) {
  const ResolvedJob resolved = parse_job("[data]\n\nbatch = 32\n", "job.toml", std::vector<std::string>{"job.lanes=1"});
  EXPECT_EQ(resolved.places.at("data.batch"), "job.toml:3");
  EXPECT_EQ(resolved.places.at("job.lanes"), "--set job.lanes=1");
  EXPECT_EQ(resolved.places.at("job.seed"), "job.toml");
  EXPECT_STREQ(resolved.invalid("data.batch", "is wrong", "Mend it.").what(),
               "job.toml:3: data.batch: is wrong. Mend it.");
}

TEST(Job, SynchronizedBatchNormGoesWithAllReduceAndOneLaneAWorker) {
  const auto job = [](const std::string& parallel, const std::string& more = "") {
    return "[job]\nlanes = 2\n" + more + "[parallel]\nworkers = 2\nsync_batch_norm = true\n" + parallel;
  };
  EXPECT_TRUE(parse_job(job("strategy = \"all_reduce\""), "j").job.parallel.sync_batch_norm);
  EXPECT_THAT(error_of(job("")), AllOf(HasSubstr("job.toml:5: parallel.sync_batch_norm"), HasSubstr("shared_sync"),
                                       HasSubstr("all_reduce")));
  EXPECT_THAT(error_of(job("strategy = \"local_sgd\"")), HasSubstr("each for itself"));
  EXPECT_THAT(error_of(job("strategy = \"all_reduce\""), {"job.lanes=4", "data.batch=128"}),
              HasSubstr("4 lanes and 2 workers"));
  EXPECT_THAT(error_of(job("strategy = \"all_reduce\"", "[model]\nscript = \"model.ts\"\n")),
              HasSubstr("inside a script"));
}

TEST(Job, AScriptTakesThePlaceOfTheName) {
  const ResolvedJob resolved = parse_job("[model]\nscript = \"model.ts\"", "job.toml");
  EXPECT_EQ(resolved.job.model.script, "model.ts");
  EXPECT_FALSE(resolved.job.model.name);
  EXPECT_EQ(parse_job(resolved.text, "again.toml").text, resolved.text);
  EXPECT_THAT(error_of("[model]\nscript = \"model.ts\"\nname = \"cnn\""),
              AllOf(HasSubstr("job.toml:2: model.script"), HasSubstr("model.name")));
  EXPECT_THAT(error_of("[model]\nscript = \"model.ts\"\ndropout = 0.5"),
              AllOf(HasSubstr("model.dropout"), HasSubstr("model.script")));
  EXPECT_THAT(error_of("[model]\nscript = \"model.ts\"\nhidden = [5]"), HasSubstr("model.hidden"));
}

TEST(Job, ATaskGoesWithItsDataItsLossAndAModel) {
  const auto job = [](const std::string& source, const std::string& loss, const std::string& more = "") {
    return fmt::format("[data]\nsource = \"{}\"\npath = \"x\"\n{}[loss]\n{}\n", source, more, loss);
  };
  EXPECT_EQ(parse_job(job("text", "task = \"language\""), "j").job.model.name, "transformer");
  EXPECT_EQ(parse_job(job("csv", "task = \"regression\"\nerror = \"huber\""), "j").job.model.name, "mlp");
  EXPECT_EQ(parse_job(job("packed", "task = \"language\""), "j").job.loss.task, "language");
  EXPECT_THAT(error_of(job("text", "")), AllOf(HasSubstr("loss.task"), HasSubstr("Set loss.task = \"language\"")));
  EXPECT_THAT(error_of(job("idx", "task = \"regression\"")), HasSubstr("csv, numpy, packed and library"));
  EXPECT_THAT(error_of(job("csv", "task = \"language\"")), HasSubstr("job.toml:5: loss.task"));
  EXPECT_THAT(error_of(job("csv", "task = \"regression\"\nlabel_smoothing = 0.1")), HasSubstr("loss.label_smoothing"));
  EXPECT_THAT(error_of(job("csv", "error = \"mae\"")), HasSubstr("loss.error"));
  EXPECT_THAT(error_of(job("packed", "task = \"regression\"", "augment = [\"mixup:0.2\"]\n")), HasSubstr("mixup"));
}

TEST(Job, ALibrarysHashBecomesPartOfTheJob) {
  const testing::TemporaryFolder folder;
  const std::string library = folder / "lib.so";
  testing::spill(library, "one");
  const std::string text = "[model]\nlibrary = \"" + library + "\"\nname = \"mine\"\n";
  const ResolvedJob before = parse_job(text, "job.toml");
  EXPECT_EQ(model_options(before.job).library, library);
  EXPECT_EQ(model_options(before.job).library_sha256, library_hash(library));
  EXPECT_EQ(parse_job(before.text, "again.toml").text, before.text);
  EXPECT_FALSE(resume_obstacle(before.text, parse_job(text, "job.toml")));
  testing::spill(library, "two");
  const auto obstacle = resume_obstacle(before.text, parse_job(text, "job.toml"));
  ASSERT_TRUE(obstacle);
  EXPECT_THAT(obstacle->what(), HasSubstr("model.library_sha256"));
}

TEST(Job, ALibraryNeedsAFileAndAName) {
  EXPECT_THAT(error_of("[model]\nlibrary = \"none.so\"\nname = \"mine\""),
              AllOf(HasSubstr("job.toml:2: model.library"), HasSubstr("none.so")));
  EXPECT_THAT(error_of("[model]\nlibrary = \"lib.so\""), HasSubstr("needs model.name"));
  EXPECT_THAT(error_of("[model]\nlibrary = \"lib.so\"\nscript = \"model.ts\""), HasSubstr("beside model.library"));
  EXPECT_THAT(error_of("[model]\nlibrary_sha256 = \"00\""), HasSubstr("without model.library"));
}

TEST(Job, WhatTheModelSectionSaysReachesTheModel) {
  // No model of the zoo has all options; one of a library takes what it likes.
  const testing::TemporaryFolder folder;
  testing::spill(folder / "lib.so", "one");
  const ResolvedJob resolved = parse_job(
      "[model]\nlibrary = \"" + (folder / "lib.so").string() +
          "\"\nname = \"wrn-16-4\"\nhidden = [5, 6]\ndropout = 0.25\nactivation = \"leaky_relu\"\nnorm = \"group\"\n"
          "groups = 4\nwidth = 7\ndepth = 8\nheads = 9\nembedding = 10\nrecompute = true\n",
      "job.toml");
  const model::ModelOptions options = model_options(resolved.job);
  EXPECT_EQ(options.name, "wrn-16-4");
  EXPECT_EQ(options.hidden, (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(options.dropout, 0.25);
  EXPECT_EQ(options.activation, "leaky_relu");
  EXPECT_EQ(options.norm, "group");
  EXPECT_EQ(options.groups, 4);
  EXPECT_EQ(options.width, 7);
  EXPECT_EQ(options.depth, 8);
  EXPECT_EQ(options.heads, 9);
  EXPECT_EQ(options.embedding, 10);
  EXPECT_TRUE(options.recompute);
  EXPECT_FALSE(model_options(parse_job("", "job.toml").job).width);
  EXPECT_THAT(error_of("[model]\nactivation = \"tanh\""), HasSubstr("leaky_relu"));
  EXPECT_THAT(error_of("[model]\nscript = \"model.ts\"\nrecompute = true"), HasSubstr("model.recompute"));
}

TEST(Job, TheResolvedTextReadsBackToTheSameJob) {
  const ResolvedJob first = parse_job(
      "[data]\nbatch = 256\nmean = [0.5]\nstd = [0.25]\n[optimizer]\nname = \"lars\"\nclip_norm = 1.5\n"
      "schedule = \"step\"\nmilestones = [1, 2.5]\n",
      "job.toml");
  const ResolvedJob second = parse_job(first.text, "again.toml");
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.json, first.json);
  EXPECT_EQ(second.lanes, 8U);
}

TEST(Job, LanesComeFromTheBatchUnlessGiven) {
  EXPECT_EQ(parse_job("[data]\nbatch = 32", "j").lanes, 1U);
  EXPECT_EQ(parse_job("[data]\nbatch = 255", "j").lanes, 4U);
  EXPECT_EQ(parse_job("[data]\nbatch = 256\n[job]\nlanes = 3", "j").lanes, 3U);
}

TEST(Job, ABatchPerLaneGrowsWithTheLanesAndAGlobalBatchDoesNot) {
  for (const std::uint64_t lanes : {1, 2, 4, 64}) {
    const std::string count = std::to_string(lanes);
    EXPECT_EQ(parse_job("[data]\nlane_batch = 32\n[job]\nlanes = " + count, "j").batch, 32 * lanes);
    EXPECT_EQ(parse_job("[data]\nbatch = 512\n[job]\nlanes = " + count, "j").batch, 512U);
  }
}

TEST(Job, TheLinearRuleScalesTheRateWithTheBatch) {
  const auto rate = [](const std::string& data) {
    return parse_job(data + "\n[optimizer]\nlr = 0.01\nscaling = \"linear\"\nbase_batch = 32", "j").lr;
  };
  EXPECT_DOUBLE_EQ(rate("[data]\nbatch = 32"), 0.01);
  EXPECT_DOUBLE_EQ(rate("[data]\nbatch = 256"), 0.08);
  EXPECT_DOUBLE_EQ(rate("[data]\nlane_batch = 32\n[job]\nlanes = 8"), 0.08);
  EXPECT_DOUBLE_EQ(parse_job("[data]\nbatch = 256\n[optimizer]\nlr = 0.01", "j").lr, 0.01);
}

TEST(Job, MistakesAreNamedWithFileLineKeyFoundAndAllowed) {
  EXPECT_THAT(error_of("[job]\nepochs = 0"),
              AllOf(HasSubstr("job.toml:2"), HasSubstr("job.epochs"), HasSubstr("found 0"), HasSubstr("1 to")));
  EXPECT_THAT(error_of("[model]\nname = \"resnet81\""),
              AllOf(HasSubstr("job.toml:2"), HasSubstr("model.name"), HasSubstr("did you mean \"resnet18\"")));
  EXPECT_THAT(error_of("[data]\n\nsource = \"fashion-mnits\""),
              AllOf(HasSubstr("job.toml:3"), HasSubstr("did you mean \"fashion-mnist\"")));
  EXPECT_THAT(error_of("[optimiser]\nlr = 1"), AllOf(HasSubstr("job.toml:1"), HasSubstr("did you mean \"optimizer\"")));
  EXPECT_THAT(error_of("[optimizer]\nlrr = 1"), AllOf(HasSubstr("job.toml:2"), HasSubstr("did you mean \"lr\"")));
  EXPECT_THAT(error_of("", {"data.batch=many"}), AllOf(HasSubstr("--set data.batch=many"), HasSubstr("integer")));
}

TEST(Job, AugmentationAndPartitionAreCheckedBeforeAnythingIsRead) {
  EXPECT_THAT(error_of("[data]\naugment = [\"flip\", \"corp:4\"]"),
              AllOf(HasSubstr("job.toml:2"), HasSubstr("data.augment"), HasSubstr("did you mean \"crop\"")));
  EXPECT_THAT(error_of("[data]\naugment = [\"crop\"]"), HasSubstr("crop:AMOUNT"));
  EXPECT_THAT(error_of("[data]\nplacement = \"local\"\npartition = \"dirichlet\""),
              AllOf(HasSubstr("job.toml:3"), HasSubstr("data.partition")));
  EXPECT_THAT(error_of("[data]\npartition = \"hash\""), HasSubstr("data.placement"));
  EXPECT_EQ(error_of("[data]\nplacement = \"local\"\npartition = \"hash\"\naugment = [\"flip\", \"mixup:0.2\"]"),
            "no error");
  const ResolvedJob pictures = parse_job("[data]\nsource = \"pictures\"\npath = \"p\"\naugment = [\"flip\"]", "j");
  EXPECT_EQ(source_options(pictures.job).shape, (std::vector<std::int64_t>{3, 224, 224}));
  EXPECT_EQ(source_options(pictures.job).augment, (std::vector<std::string>{"flip"}));
  EXPECT_EQ(parse_job(pictures.text, "j").text, pictures.text);
}

TEST(Job, FineTuningIsCheckedBeforeAnythingIsRead) {
  const ResolvedJob job = parse_job(
      "[model]\ninit = \"a.pth\"\ninit_skip = [\"fc.*\"]\nfreeze = [\"conv*\"]\nunfreeze = [\"conv2.*=3\"]\n"
      "[optimizer]\nlr_factors = [\"fc.*=2\"]",
      "job.toml");
  const compute::Tuning parsed = tuning(job.job);
  EXPECT_EQ(compute::frozen_epochs(parsed, "conv2.weight"), 3U);
  EXPECT_EQ(compute::lr_factor(parsed, "fc.bias"), 2);
  EXPECT_THAT(error_of("[model]\nunfreeze = [\"a=1\"]"), HasSubstr("job.toml:2: model.unfreeze"));
  EXPECT_THAT(error_of("[model]\ninit_skip = [\"a\"]"), HasSubstr("model.init_skip"));
  EXPECT_THAT(error_of("[model]\nfreeze = [\"a\"]\nunfreeze = [\"a=soon\"]"), HasSubstr("a=soon"));
  EXPECT_THAT(error_of("[optimizer]\nlr_factors = [\"a=0\"]"), HasSubstr("model.freeze"));
  EXPECT_THAT(error_of("[optimizer]\nname = \"lamb\"\ninit = \"o.pth\""), HasSubstr("torch.optim has no lamb"));
}

TEST(Job, ImpossibleCombinationsSayWhatToChange) {
  EXPECT_THAT(error_of("[job]\nlanes = 8\n[data]\nbatch = 4"), AllOf(HasSubstr("job.toml:2"), HasSubstr("job.lanes")));
  EXPECT_THAT(error_of("[job]\nlanes = 4\n[data]\nlane_batch = 1"), HasSubstr("a lane needs 2 samples"));
  EXPECT_EQ(error_of("[job]\nlanes = 1\n[data]\nbatch = 1"), "no error");
  EXPECT_THAT(error_of("[data]\nbatch = 64\nlane_batch = 32"), HasSubstr("not both"));
  EXPECT_THAT(error_of("[data]\nlane_batch = 32"), HasSubstr("job.lanes"));
  EXPECT_THAT(error_of("[parallel]\nworkers = 64\n[data]\nbatch = 64"), HasSubstr("set job.lanes to 64"));
  EXPECT_THAT(error_of("[optimizer]\nname = \"adam\"\nmomentum = 0.9"),
              AllOf(HasSubstr("job.toml:3"), HasSubstr("optimizer.momentum"), HasSubstr("sgd and lars")));
  EXPECT_THAT(error_of("[optimizer]\ngamma = 0.5"), HasSubstr("has no effect with schedule \"constant\""));
  EXPECT_THAT(error_of("[optimizer]\nnesterov = true"), HasSubstr("momentum above 0"));
  EXPECT_EQ(error_of("[optimizer]\nname = \"lars\"\nnesterov = true"), "no error") << "0.9 by default";
  EXPECT_THAT(error_of("[optimizer]\nschedule = \"step\""), HasSubstr("milestones"));
  EXPECT_THAT(error_of("[optimizer]\nbase_batch = 64"), HasSubstr("scaling"));
  EXPECT_THAT(error_of("[data]\nmean = [0.5]"), HasSubstr("together"));
  EXPECT_THAT(error_of("[data]\nclasses = 3"), HasSubstr("synthetic"));
  EXPECT_THAT(error_of("[job]\nname = \"../out\""), HasSubstr("no slashes"));
}

TEST(Job, OptimizerOptionsCarryEveryKey) {
  const auto sgd = std::get<compute::Sgd>(
      optimizer_options(parse_job("[optimizer]\nlr = 0.5\nmomentum = 0.8\nnesterov = true\nweight_decay = 0.01", "j")));
  EXPECT_EQ(sgd.lr, 0.5);
  EXPECT_EQ(sgd.momentum, 0.8);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(sgd.weight_decay, 0.01);
  const auto lamb = std::get<compute::Lamb>(
      optimizer_options(parse_job("[optimizer]\nname = \"lamb\"\nbeta1 = 0.5\nbeta2 = 0.6\neps = 0.1", "j")));
  EXPECT_EQ(lamb.beta1, 0.5);
  EXPECT_EQ(lamb.beta2, 0.6);
  EXPECT_EQ(lamb.eps, 0.1);
  EXPECT_EQ(lamb.weight_decay, compute::Lamb{}.weight_decay);
  EXPECT_EQ(std::get<compute::AdamW>(optimizer_options(parse_job("[optimizer]\nname = \"adamw\"", "j"))).weight_decay,
            compute::AdamW{}.weight_decay);
}

TEST(Job, EpochsOfTheScheduleBecomeSteps) {
  const ResolvedJob resolved = parse_job(
      "[job]\nepochs = 4\n[optimizer]\nschedule = \"step\"\nmilestones = [1, 2.5]\nwarmup_epochs = 0.5\n[data]\nbatch "
      "= 10",
      "j");
  const data::BatchShape shape{.samples = 105, .batch = 10, .lanes = 1};  // 11 steps an epoch
  const compute::Schedule s = schedule(resolved.job, shape);
  EXPECT_EQ(s.total_steps, 44U);
  EXPECT_EQ(s.warmup_steps, 5.5);
  EXPECT_EQ(s.milestones, (std::vector<double>{11, 27.5}));
  EXPECT_EQ(total_steps(parse_job("[job]\nsteps = 7", "j").job, shape), 7U);
}

TEST(Job, ResumingRefusesWhatWouldChangeTheResult) {
  const ResolvedJob before = parse_job("[data]\nbatch = 64", "j");
  EXPECT_FALSE(resume_obstacle(before.text, before));
  for (const char* harmless : {"job.epochs=20", "checkpoint.keep=9", "data.prefetch=8", "job.runs=elsewhere"}) {
    const std::vector<std::string> set{harmless};
    EXPECT_FALSE(resume_obstacle(before.text, parse_job("[data]\nbatch = 64", "j", set))) << harmless;
  }
  for (const char* harmful : {"job.lanes=4", "job.threads=2", "job.seed=2", "data.batch=65", "optimizer.lr=0.3",
                              "model.name=mlp", "optimizer.clip_norm=1"}) {
    const std::vector<std::string> set{harmful};
    const auto obstacle = resume_obstacle(before.text, parse_job("[data]\nbatch = 64", "j", set));
    ASSERT_TRUE(obstacle) << harmful;
    EXPECT_EQ(obstacle->kind(), ErrorKind::kMismatch);
    const std::string key = std::string(harmful).substr(0, std::string(harmful).find('='));
    EXPECT_THAT(obstacle->what(), HasSubstr(key.substr(0, key.find('.')) + "."));
  }
}

}  // namespace
}  // namespace muster::trainer
