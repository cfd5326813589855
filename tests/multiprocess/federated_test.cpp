// muster federated simulate as a user meets it: rounds, the same bits for any number of workers, a stop, going on, and
// what is refused.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>

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
using testing::run_program;

class Federated : public ::testing::Test {
 protected:
  Federated() {
    std::ofstream(folder_ / "job.toml") << "[data]\nsource = \"synthetic\"\nshape = [12]\nclasses = 4\nsamples = 600\n"
                                           "test_samples = 300\nbatch = 10\n[model]\nname = \"mlp\"\nhidden = [16]\n"
                                           "dropout = 0.1\n[optimizer]\nlr = 0.1\n"
                                           "[federated]\nclients = 12\nper_round = 5\nrounds = 4\nlocal_epochs = 2\n";
  }
  Finished simulate(std::vector<std::string> more) {
    std::vector<std::string> arguments{"federated", "simulate", "job.toml", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(folder_.path(), arguments);
  }
  // The last row.
  Json finish(std::vector<std::string> more) {
    const Finished result = simulate(std::move(more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? rows(result.out).back() : Json();
  }
  std::string model_of(const Json& finished) const {
    return testing::slurp(folder_.path() / finished.at("run").get<std::string>() / "model.safetensors");
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(Federated, TrainsWithTheSameBitsForAnyNumberOfWorkers) {
  const Json one = finish({"--workers", "1", "--rounds", "8"});
  EXPECT_EQ(one.at("event"), "finished");
  EXPECT_EQ(one.at("rounds"), 8);
  EXPECT_EQ(one.at("client_rounds"), 40);
  EXPECT_GT(one.at("accuracy").get<double>(), 0.5);
  const Json three = finish({"--workers", "3", "--rounds", "8"});
  EXPECT_EQ(one.at("test_loss"), three.at("test_loss"));
  EXPECT_EQ(model_of(one), model_of(three));
  const Json scaffold = finish({"--workers", "2", "--set", "federated.algorithm=scaffold"});
  EXPECT_EQ(model_of(scaffold), model_of(finish({"--workers", "1", "--set", "federated.algorithm=scaffold"})));
}

TEST_F(Federated, TrainIsTheSimulation) {
  const Json simulated = finish({});
  const Finished trained = run_program(folder_.path(), {"train", "job.toml", "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(model_of(rows(trained.out).back()), model_of(simulated));
}

// Narrower models, heads of one's own, few numbers sent, buffers: each with the bits of one worker.
TEST_F(Federated, PartsOfModelsAndBuffersTrainWithTheSameBits) {
  const std::vector<std::vector<std::string>> kinds{
      {"--set", "federated.submodels=[\"model.hidden=[8]\", \"model.hidden=[4]\"]"},
      {"--set", "federated.keep=[\"head\"]", "--set", "federated.client_test=0.2"},
      {"--set", "federated.compress=topk:0.1"},
      {"--set", "federated.algorithm=fedbuff", "--set", "federated.speed_spread=1"}};
  for (std::vector<std::string> kind : kinds) {
    std::vector<std::string> one = kind;
    one.insert(one.end(), {"--workers", "1"});
    kind.insert(kind.end(), {"--workers", "3"});
    const Json alone = finish(one);
    EXPECT_EQ(model_of(alone), model_of(finish(kind))) << kind[1];
  }
}

TEST_F(Federated, GoesOnAfterAStopWithTheSameBits) {
  const Json whole = finish({"--rounds", "6"});
  const Json begun = finish({"--rounds", "2"});
  const std::string run = begun.at("run");
  const Json resumed = finish({"--rounds", "6", "--run", run});
  EXPECT_EQ(resumed.at("run"), run);
  EXPECT_EQ(model_of(resumed), model_of(whole));
  EXPECT_EQ(simulate({"--run", run, "--set", "optimizer.lr=0.2"}).exit_code, 2);
  // Nothing is left to do, and nothing is written.
  const std::string rows_before = testing::slurp(folder_.path() / run / "metrics.jsonl");
  EXPECT_EQ(simulate({"--rounds", "6", "--run", run}).exit_code, 0);
  EXPECT_EQ(testing::slurp(folder_.path() / run / "metrics.jsonl"), rows_before);
}

// Killed when the last round's state is on disk, and nothing else of the end: its row, model and card come later.
TEST_F(Federated, WhatIsKilledAtItsLastRoundIsEndedByTheNext) {
  const Json whole = finish({});
  ::setenv("MUSTER_FAILPOINTS", "federated.simulate.before_row=kill@call=3", 1);
  const Finished killed = simulate({});
  ::unsetenv("MUSTER_FAILPOINTS");
  EXPECT_EQ(killed.signal, SIGKILL);
  const Json ended = finish({"--resume"});
  EXPECT_EQ(model_of(ended), model_of(whole));
  EXPECT_EQ(ended.at("test_loss"), whole.at("test_loss"));
  std::uint64_t next = 1;
  for (const Json& row : rows(testing::slurp(folder_.path() / ended.at("run").get<std::string>() / "metrics.jsonl"))) {
    if (row.at("event") != "round") continue;
    EXPECT_EQ(row.at("round").get<std::uint64_t>(), next++);
  }
  EXPECT_EQ(next, 5U);
}

TEST_F(Federated, TheModelIsEvaluatedAsAnyOther) {
  const Json ended = finish({});
  for (const std::string& what : {ended.at("run").get<std::string>(), std::string("job")}) {
    const Finished evaluated = run_program(folder_.path(), {"evaluate", what, "--json"});
    ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
    EXPECT_EQ(rows(evaluated.out).back().at("accuracy"), ended.at("accuracy")) << what;
  }
  EXPECT_THAT(testing::slurp(folder_.path() / ended.at("run").get<std::string>() / "card.md"),
              HasSubstr("4 rounds of clients that keep their data"));
}

// Nothing is kept for clients that have nothing, and no round needs more than the one before.
TEST_F(Federated, AMillionClientsNeedTheMemoryOfARound) {
  const Finished result = simulate({"--clients", "1000000", "--per-round", "200", "--rounds", "4", "--set",
                                    "federated.client_samples=20", "--workers", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<Json> all = rows(result.out);
  const auto memory = [&](std::size_t row) { return all.at(row).at("peak_memory_mb").get<double>(); };
  EXPECT_GT(memory(0), 50);
  EXPECT_LT(memory(4), 1.05 * memory(0));
  EXPECT_LT(memory(4), 8192);
}

// A fifth of the clients turn their updates round: the mean breaks, and what holds against them keeps 0.95 of the
// accuracy without them.
TEST_F(Federated, RobustAggregatesKeepTheAccuracyThatTheMeanLoses) {
  const auto accuracy = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"--clients", "40", "--per-round", "20", "--rounds", "15"};
    words.insert(words.end(), more.begin(), more.end());
    return finish(words).at("accuracy").get<double>();
  };
  const double clean = accuracy({});
  const std::vector<std::string> attacked{"--set", "federated.attack=sign_flip", "--set", "federated.attackers=0.2"};
  EXPECT_GT(clean, 0.7);
  EXPECT_LT(accuracy(attacked), 0.7 * clean);
  const std::vector<std::vector<std::string>> kinds{
      {"--set", "federated.aggregate=median"},
      {"--set", "federated.aggregate=trimmed_mean", "--set", "federated.trim=0.4"},
      {"--set", "federated.aggregate=multi_krum", "--set", "federated.byzantine=8", "--set", "federated.krum_keep=10"}};
  for (std::vector<std::string> kind : kinds) {
    kind.insert(kind.end(), attacked.begin(), attacked.end());
    EXPECT_GT(accuracy(kind), 0.95 * clean) << kind[1];
  }
}

// DP-SGD: the same bits for any number of workers, and each client stops at its own budget, after a stop, too.
TEST_F(Federated, ClientsTrainInPrivateAndStopAtTheirBudget) {
  const std::vector<std::string> settings{
      "--set", "federated.sample_clip=1",    "--set",       "federated.sample_noise=2",
      "--set", "federated.sample_epsilon=6", "--per-round", "12"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), settings.begin(), settings.end());
    return more;
  };
  const Json one = finish(with({"--rounds", "1000", "--workers", "1"}));
  EXPECT_EQ(one.at("budget_spent"), true);
  const auto rounds = one.at("rounds").get<int>();
  EXPECT_GT(rounds, 2);
  EXPECT_LT(rounds, 1000);
  const Json begun = finish(with({"--rounds", "2", "--workers", "2"}));
  const Json resumed =
      finish(with({"--rounds", "1000", "--workers", "2", "--run", begun.at("run").get<std::string>()}));
  EXPECT_EQ(resumed.at("rounds"), rounds);
  EXPECT_EQ(model_of(resumed), model_of(one));
}

// Clients of unlike sizes have unlike budgets: whose is spent is not drawn any more, and the others go on until all are
// spent, also after a stop, with the same bits.
TEST_F(Federated, WhoseBudgetIsSpentIsNotDrawnAndTheOthersGoOn) {
  const auto with = [](std::vector<std::string> more) {
    for (const char* setting : {"split=dirichlet:0.5", "sample_clip=1", "sample_noise=1", "sample_epsilon=4",
                                "local_epochs=1", "evaluate_every=1000"})
      more.insert(more.end(), {"--set", std::string("federated.") + setting});
    more.insert(more.end(), {"--clients", "5", "--per-round", "1"});
    return more;
  };
  const Finished whole = simulate(with({"--rounds", "1000"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const std::vector<Json> all = rows(whole.out);
  EXPECT_EQ(all.back().at("budget_spent"), true);
  EXPECT_LT(all.back().at("rounds").get<int>(), 1000);
  std::set<int> spent;
  for (const Json& row : all) {
    if (row.at("event") != "round") continue;
    EXPECT_EQ(row.at("counted"), 1) << row.dump();
    EXPECT_FALSE(row.contains("client_loss")) << "no noise is on it, so nobody says it";
    EXPECT_LE(row.at("sample_epsilon").get<double>(), 4);
    spent.insert(row.value("spent", 0));
  }
  EXPECT_EQ(*spent.rbegin(), 5);
  EXPECT_GT(spent.size(), 2U) << "not all at once";
  // Stopped where some are spent and others are not.
  const int stop = all.back().at("rounds").get<int>() * 3 / 4;
  const Json begun = finish(with({"--rounds", std::to_string(stop)}));
  const Json resumed = finish(with({"--rounds", "1000", "--run", begun.at("run").get<std::string>()}));
  EXPECT_EQ(resumed.at("rounds"), all.back().at("rounds"));
  EXPECT_EQ(model_of(resumed), model_of(all.back()));
}

TEST_F(Federated, CtrlCEndsItWithWhatToType) {
  testing::Program program(folder_.path(), {"federated", "simulate", "job.toml", "--rounds", "1000000", "--set",
                                            "federated.local_epochs=1"});
  ASSERT_TRUE(testing::eventually([&] { return program.out().find("round 2/") != std::string::npos; }));
  program.signal(SIGINT);
  const Finished stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_THAT(stopped.out, AllOf(HasSubstr("stopped after round"), HasSubstr("--set 'federated.local_epochs=1'"),
                                 HasSubstr("--run runs/job-")));
}

TEST_F(Federated, WhatCannotBeIsRefusedWithThePlace) {
  const auto refused = [&](std::vector<std::string> more, const std::string& words) {
    const Finished result = simulate(std::move(more));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  refused({"--per-round", "13"}, "13 of 12 clients");
  refused({"--clients", "700"}, "federated.client_samples");
  refused({"--set", "federated.prox=1"}, "has no effect without algorithm = \"fedprox\"");
  refused({"--set", "federated.noise=1"}, "federated.clip");
  refused({"--set", "federated.aggregate=krum", "--set", "federated.byzantine=2"}, "at least 7 updates");
  refused({"--set", "optimizer.schedule=cosine"}, "federated.lr_decay");
  refused({"--set", "federated.split=file:nothing"}, "nothing");
  refused({"--set", "federated.algorithm=scaffold", "--set", "optimizer.momentum=0.9"}, "plain SGD");
  refused({"--set", "federated.algorithm=scaffold", "--set", "optimizer.clip_norm=1"}, "plain SGD");
  refused({"--set", "federated.aggregate=trimmed_mean"}, "leaves out nobody");
  refused({"--set", "federated.sample_noise=1"}, "federated.sample_clip");
  refused({"--set", "federated.sample_clip=1"}, "has no effect without sample_noise");
  refused({"--set", "federated.keep=[\"body\"]"}, "\"body\" fits no tensor");
  refused({"--set", "federated.compress=zip"}, "no way to send updates");
  refused({"--set", "federated.compress=int8", "--set", "federated.algorithm=scaffold"}, "federated.compress");
  refused({"--set", "federated.concurrency=9"}, "has no effect without algorithm = \"fedbuff\"");
  refused({"--set", "federated.submodels=[\"model.hidden=[32]\"]"}, "is no part of");
  refused({"--set", "federated.submodels=[\"model.hiden=[8]\"]"}, "federated.submodels");
  std::ofstream(folder_ / "job.toml")
      << "[data]\nsource = \"synthetic\"\nshape = [1, 28, 28]\nclasses = 4\nsamples = 60\n"
         "test_samples = 30\n[model]\nname = \"cnn\"\n"
         "[federated]\nclients = 3\nper_round = 2\n";
  refused({"--set", "federated.noise=1", "--set", "federated.clip=1"}, "statistics of batch norm");
  refused({"--set", "federated.sample_noise=1", "--set", "federated.sample_clip=1"}, "statistics of batch norm");
}

// What a simulation refuses `muster check` refuses, by the key and its place; and nothing is left behind.
TEST_F(Federated, WhatIsRefusedIsRefusedByCheckTooAndLeavesNoRun) {
  std::filesystem::remove_all(folder_ / "runs");
  const std::string pictures =
      "[data]\nsource = \"synthetic\"\nshape = [1, 28, 28]\nclasses = 4\nsamples = 60\ntest_samples = 30\n"
      "[model]\nname = \"cnn\"\n[federated]\nclients = 3\nper_round = 2\n";
  const std::string plain = testing::slurp(folder_ / "job.toml");
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong{
      {pictures + "clip = 1\nnoise = 1\n",
       {"job.toml:13", "federated.noise", "statistics of batch norm", "model.norm"}},
      {pictures + "sample_clip = 1\nsample_noise = 1\n",
       {"job.toml:13", "federated.sample_noise", "statistics of batch norm"}},
      {plain + "noise = 1\nclip = 1\nepsilon = 0.01\n", {"job.toml:21", "federated.epsilon", "allows no round"}},
      {plain + "sample_noise = 0.5\nsample_clip = 1\nsample_epsilon = 0.01\n",
       {"job.toml:21", "federated.sample_epsilon", "allows no client a single round"}},
      {plain + "keep = [\"body\"]\n", {"job.toml:19", "federated.keep", "fits no tensor"}},
      {plain + "submodels = [\"model.hidden=[32]\"]\n", {"job.toml:19", "federated.submodels", "is no part of"}},
      {plain + "split = \"file:nothing\"\n", {"job.toml:19", "federated.split", "nothing"}}};
  for (const auto& [job, words] : wrong) {
    std::ofstream(folder_ / "job.toml") << job;
    const std::vector<std::vector<std::string>> commands{
        {"check", "job.toml"}, {"federated", "simulate", "job.toml"}, {"train", "job.toml"}};
    for (const std::vector<std::string>& command : commands) {
      const Finished result = run_program(folder_.path(), command);
      EXPECT_EQ(result.exit_code, 2) << command[0] << "\n" << job << result.out;
      for (const std::string& word : words)
        EXPECT_THAT(result.err, HasSubstr(word)) << command[0];
      EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << job;
    }
  }
}

}  // namespace
}  // namespace muster
