// Keys that would do nothing are refused, whatever their value; resolved jobs are not.
#include "muster/trainer/job_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <fmt/format.h>

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse_job(text, "job.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "no error";
}

TEST(JobRules, AnOptionThatTheModelHasNotIsNamedWithItsLine) {
  EXPECT_THAT(error_of("[model]\nname = \"mlp\"\nwidth = 64\n"),
              AllOf(HasSubstr("job.toml:3: model.width"), HasSubstr("\"mlp\" has no such option"),
                    HasSubstr("hidden, dropout and activation"), HasSubstr("lstm, gru and transformer")));
  EXPECT_THAT(error_of("[model]\nname = \"cnn\"\ndepth = 3\n"), HasSubstr("job.toml:3: model.depth"));
  EXPECT_THAT(error_of("[model]\ndepth = 3\n"), HasSubstr("\"cnn\" has no such option")) << "the model by default";
  EXPECT_THAT(error_of("[model]\nname = \"wrn-16-4\"\nhidden = [5]\n"), HasSubstr("wrn-16-4"));
  EXPECT_EQ(error_of("[model]\nname = \"wrn-16-4\"\ndropout = 0.3\n"), "no error");
  EXPECT_THAT(error_of("[model]\nname = \"resnet20\"\ngroups = 4\n"),
              AllOf(HasSubstr("job.toml:3: model.groups"), HasSubstr("norm = \"group\"")));
  EXPECT_EQ(error_of("[model]\nname = \"resnet20\"\nnorm = \"group\"\ngroups = 4\n"), "no error");
}

TEST(JobRules, SeveralHostsNeedAStrategyThatCanAndALaneForEveryWorker) {
  const auto job = [](const char* keys) { return fmt::format("[job]\nlanes = 8\n[parallel]\n{}\n", keys); };
  for (const char* keys : {"hosts = 2", "hosts = \"1:4\"\nworkers = 2", "hosts = 8", "hosts = 1\nworkers = 8",
                           "hosts = 2\ninterface = \"eth0\"\nhost_seconds = 2.5"})
    EXPECT_EQ(error_of(job(keys)), "no error") << keys;
  EXPECT_THAT(error_of(job("hosts = \"1:4\"\nworkers = 3")),
              AllOf(HasSubstr("job.toml:4: parallel.hosts"), HasSubstr("4 hosts of 3 workers cannot share 8 lanes"),
                    HasSubstr("job.lanes to 12")));
  const auto served = [&](const char* keys) {
    return error_of(job(fmt::format("strategy = \"parameter_server\"\n{}", keys).c_str()));
  };
  for (const char* keys : {"hosts = 2", "hosts = 3\nservers = 2\ncopies = 2", "hosts = 2\ntransport = \"grpc\""})
    EXPECT_EQ(served(keys), "no error") << keys;
  EXPECT_THAT(served("hosts = \"1:2\""), AllOf(HasSubstr("parallel.hosts"), HasSubstr("Give one number")));
  EXPECT_THAT(served("hosts = 2\nservers = 0"), AllOf(HasSubstr("parallel.servers"), HasSubstr("2 puts one on each")));
  EXPECT_THAT(served("hosts = 2\ntransport = \"shared_memory\""), HasSubstr("parallel.transport"));
  for (const char* keys : {"network = \"mpi\"", "hosts = 2\nnetwork = \"mpi\""})
    EXPECT_THAT(served(keys), AllOf(HasSubstr("parallel.network"), HasSubstr("parameter_server"))) << keys;
  EXPECT_THAT(served("hosts = 2\nconsistency = \"asp\"\nsnapshot_seconds = 5"),
              AllOf(HasSubstr("parallel.snapshot_seconds"), HasSubstr("copies = 2")));
  for (const char* strategy : {"all_reduce", "local_sgd"}) {
    const auto with = [&](const char* keys) {
      return job(fmt::format("strategy = \"{}\"\n{}", strategy, keys).c_str());
    };
    EXPECT_EQ(error_of(with("hosts = 2\nliveness_seconds = 5\norphan_seconds = 5")), "no error") << strategy;
    EXPECT_THAT(error_of(with("hosts = \"1:4\"")), AllOf(HasSubstr("job.toml:5: parallel.hosts"),
                                                         HasSubstr("its hosts are fixed"), HasSubstr("shared_sync")));
    EXPECT_THAT(error_of(with("hosts = 2\nhang_seconds = 5")), HasSubstr("parallel.hang_seconds"));
  }
  EXPECT_EQ(error_of("[job]\nlanes = 4\n[model]\nname = \"cnn\"\n[parallel]\nstrategy = \"all_reduce\"\nhosts = 2\n"
                     "workers = 2\nsync_batch_norm = true\n"),
            "no error");
  EXPECT_THAT(error_of(job("hosts = 0")), HasSubstr("parallel.hosts"));
  EXPECT_THAT(error_of(job("host_seconds = 0.1")), HasSubstr("parallel.host_seconds"));
}

TEST(JobRules, AKeyOfAnotherStrategyIsRefused) {
  const auto job = [](const char* strategy, const char* key) {
    return fmt::format("[parallel]\nstrategy = \"{}\"\n{}\n", strategy, key);
  };
  for (const char* key :
       {"period = 3", "averaged_steps = 5", "outer_lr = 0.5", "outer_momentum = 0.5", "average_state = false"}) {
    EXPECT_THAT(error_of(job("shared_sync", key)), AllOf(HasSubstr("job.toml:3: parallel."), HasSubstr("local_sgd")));
    EXPECT_THAT(error_of(job("all_reduce", key)), HasSubstr("has no effect with strategy \"all_reduce\""));
    EXPECT_EQ(error_of(job("local_sgd", key)), "no error") << key;
  }
  for (const char* key : {"bucket_kb = 64", "overlap = true"}) {
    EXPECT_THAT(error_of(job("shared_sync", key)), HasSubstr("It belongs to all_reduce"));
    EXPECT_EQ(error_of(job("all_reduce", key)), "no error") << key;
  }
  for (const char* key : {"liveness_seconds = 5", "hang_seconds = 30", "start_seconds = 99", "orphan_seconds = 5"}) {
    EXPECT_THAT(error_of(job("all_reduce", key)), HasSubstr("shared_sync and parameter_server"));
    EXPECT_EQ(error_of(job("shared_sync", key)), "no error") << key;
    EXPECT_EQ(error_of(job("parameter_server", key)), "no error") << key;
  }
  // Whose lanes are theirs from the start.
  for (const char* strategy : {"all_reduce", "local_sgd"})
    EXPECT_THAT(error_of(job(strategy, "claims = \"static\"")),
                AllOf(HasSubstr("job.toml:3: parallel.claims"), HasSubstr("shared_sync and parameter_server")));
  for (const char* strategy : {"shared_sync", "parameter_server"})
    EXPECT_EQ(error_of(job(strategy, "claims = \"static\"")), "no error") << strategy;
}

TEST(JobRules, AutomaticCheckpointsAreRefusedWhereNothingWouldComeOfThem) {
  const auto job = [](const char* strategy, const char* every) {
    return fmt::format("[parallel]\nstrategy = \"{}\"\n[checkpoint]\nevery_steps = {}\n", strategy, every);
  };
  EXPECT_THAT(error_of(job("parameter_server", "\"auto\"")),
              AllOf(HasSubstr("job.toml:4: checkpoint.every_steps"), HasSubstr("no effect"), HasSubstr("a number")));
  EXPECT_EQ(error_of(job("parameter_server", "10")), "no error");
  EXPECT_EQ(error_of(job("shared_sync", "\"auto\"")), "no error");
}

TEST(JobRules, AKeyOfAnotherConsistencyIsRefused) {
  const auto job = [](const char* consistency, const char* key) {
    return fmt::format(
        "[job]\nlanes = 4\n[data]\nbatch = 64\n[parallel]\nstrategy = \"parameter_server\"\n"
        "consistency = \"{}\"\n{}\n",
        consistency, key);
  };
  EXPECT_THAT(error_of(job("bsp", "staleness = 5")),
              AllOf(HasSubstr("job.toml:8: parallel.staleness"), HasSubstr("\"bsp\""), HasSubstr("belongs to ssp")));
  EXPECT_THAT(error_of(job("asp", "staleness = 5")), HasSubstr("parallel.staleness"));
  EXPECT_THAT(error_of(job("ssp", "backups = 2")), HasSubstr("parallel.backups"));
  EXPECT_THAT(error_of(job("asp", "claims = \"static\"")), HasSubstr("It belongs to bsp and backup"));
  EXPECT_EQ(error_of(job("asp:20, bsp", "claims = \"static\"")), "no error");
  EXPECT_THAT(error_of(job("backup", "staleness_rate = true")), HasSubstr("asp and ssp"));
  for (const auto& [consistency, key] : {std::pair("ssp", "staleness = 5"), std::pair("bsp:9, ssp", "staleness = 5"),
                                         std::pair("backup", "backups = 2"), std::pair("asp", "staleness_rate = true")})
    EXPECT_EQ(error_of(job(consistency, key)), "no error") << consistency << ", " << key;
}

// The value does not matter: whoever wrote the key believes in it.
TEST(JobRules, AKeyThatDoesNothingIsRefusedAtItsDefaultToo) {
  const std::string servers = "[parallel]\nstrategy = \"parameter_server\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {servers + "staleness = 3\n", "job.toml:3: parallel.staleness"},
      {servers + "backups = 1\n", "job.toml:3: parallel.backups"},
      {"[parallel]\nstaleness = 3\n", "job.toml:2: parallel.staleness"},
      {"[parallel]\nperiod = 8\n", "job.toml:2: parallel.period"},
      {"[model]\nname = \"mlp\"\nrecompute = false\n", "job.toml:3: model.recompute"},
      {"[data]\nbad_sample_limit = 100\n", "job.toml:2: data.bad_sample_limit"},
      {"[data]\nwindow = 64\n", "job.toml:2: data.window"},
      {"[data]\npartition = \"consecutive\"\n", "job.toml:2: data.partition"},
      {"[optimizer]\ngamma = 0.1\n", "job.toml:2: optimizer.gamma"},
      {"[optimizer]\nname = \"adam\"\nnesterov = false\n", "job.toml:3: optimizer.nesterov"},
      {"[optimizer]\nwarmup_start = 0.1\n", "job.toml:2: optimizer.warmup_start"},
      {"[optimizer]\nbase_batch = 32\n", "job.toml:2: optimizer.base_batch"},
  };
  for (const auto& [text, place] : cases)
    EXPECT_THAT(error_of(text), HasSubstr(place)) << text;
}

// What a program wrote, or takes a key back, is nobody's belief.
TEST(JobRules, ResolvedJobsAndKeysTakenBackAreNotRefused) {
  for (const char* text : {"[job]\nepochs = 3\n", "[parallel]\nstrategy = \"local_sgd\"\n",
                           "[data]\nsource = \"csv\"\npath = \"t.csv\"\n[optimizer]\nname = \"lamb\"\n"})
    EXPECT_EQ(error_of(parse_job(text, "job.toml").text), "no error") << text;
  EXPECT_EQ(error_of("[data]\ntarget = \"\"\nignore = []\n"), "no error");
  const std::string assignments[] = {"parallel.strategy=shared_sync", "parallel.period=8"};
  const ResolvedJob resolved = parse_job("[parallel]\nstrategy = \"local_sgd\"\nperiod = 4\n", "job.toml", assignments);
  EXPECT_EQ(resolved.job.parallel.chosen().name(), "shared_sync");
}

TEST(JobRules, AShapeOfPicturesIsWhatTheFileSaysThoughItIsTheDefaultOfOthers) {
  const std::string job = "[data]\nsource = \"pictures\"\npath = \"p\"\n";
  EXPECT_EQ(parse_job(job, "job.toml").job.data.shape, (std::vector<std::int64_t>{3, 224, 224}));
  const ResolvedJob grey = parse_job(job + "shape = [1, 28, 28]\n", "job.toml");
  EXPECT_EQ(grey.job.data.shape, (std::vector<std::int64_t>{1, 28, 28}));
  EXPECT_EQ(parse_job(grey.text, "job.toml").job.data.shape, grey.job.data.shape);
}

TEST(JobRules, AColumnIsOfOneKind) {
  const auto job = [](const std::string& keys, const char* task = "classification") {
    return fmt::format("[loss]\ntask = \"{}\"\n[data]\nsource = \"csv\"\npath = \"t.csv\"\n{}\n", task, keys);
  };
  EXPECT_THAT(error_of(job("numeric = [\"age\", \"size\"]\ncategorical = [\"colour\", \"size\"]")),
              AllOf(HasSubstr("job.toml:7: data.categorical"), HasSubstr("\"size\" stands in data.numeric too")));
  EXPECT_THAT(error_of(job("numeric = [\"age\"]\nignore = [\"age\"]")), HasSubstr("job.toml:7: data.ignore"));
  EXPECT_THAT(error_of(job("target = \"y\"\nnumeric = [\"y\"]")),
              AllOf(HasSubstr("job.toml:7: data.numeric"), HasSubstr("is the target"), HasSubstr("classes")));
  EXPECT_EQ(error_of(job("target = \"y\"\ncategorical = [\"y\"]")), "no error");
  EXPECT_THAT(error_of(job("target = \"y\"\ncategorical = [\"y\"]", "regression")), HasSubstr("numbers"));
  EXPECT_THAT(error_of(job("target = \"y\"\nignore = [\"y\"]")), HasSubstr("data.ignore"));
  for (const char* list : {"categorical", "ignore"})
    EXPECT_THAT(error_of(job(fmt::format("targets = [\"x\", \"y\"]\n{} = [\"y\"]", list), "regression")),
                AllOf(HasSubstr(fmt::format("job.toml:7: data.{}", list)), HasSubstr("\"y\" is a target")));
  EXPECT_EQ(error_of(job("numeric = [\"age\"]\ncategorical = [\"size\"]\nignore = [\"id\"]")), "no error");
}

// Advice to change lanes would lead to the next refusal.
TEST(JobRules, WorkersOfAJobWithoutThemAreRefusedAsSuchHoweverMany) {
  const std::string vertical =
      "[data]\nsource = \"csv\"\npath = \"a\"\ntarget = \"y\"\npartition = \"vertical\"\n[model]\nname = "
      "\"mlp\"\n[vertical]\n"
      "id = \"id\"\n[parallel]\n";
  EXPECT_THAT(error_of(vertical + "workers = 64\n"), HasSubstr("parallel.workers: has no effect on vertical training"));
  EXPECT_THAT(error_of(vertical + "hosts = 64\n"), HasSubstr("parallel.hosts: has no effect on vertical training"));
  EXPECT_THAT(error_of("[federated]\nclients = 10\nper_round = 3\n[parallel]\nworkers = 64\n"),
              HasSubstr("parallel.workers: has no effect on federated training"));
}

TEST(JobRules, KeysThatNeedAnotherSaySo) {
  const std::pair<const char*, const char*> cases[] = {
      {"[data]\nbad_sample_limit = 3", "on_bad_sample = \"skip\""},
      {"[data]\nsource = \"csv\"\npath = \"a\"\ntest_path = \"b\"\ntest_fraction = 0.2", "data.test_path"},
      {"[data]\nsource = \"csv\"\npath = \"a\"\naugment = [\"flip\"]", "is for pictures"},
      {"[data]\naugment = [\"random-resized-crop\"]", "Use crop:N instead"},
      {"[data]\nsource = \"synthetic\"\npath = \"a\"", "has no effect with source \"synthetic\""},
      {"[data]\nsource = \"csv\"\npath = \"a\"\nmean = [0.5]\nstd = [0.5]", "has no effect with source \"csv\""},
      {"[optimizer]\nwarmup_start = 0.5", "optimizer.warmup_epochs"},
      {"[optimizer]\ndampening = 0.5", "optimizer.momentum"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(error_of(text), HasSubstr(expected)) << text;
  EXPECT_EQ(error_of("[optimizer]\nmomentum = 0.9\ndampening = 0.5\nwarmup_epochs = 1\nwarmup_start = 0.5"),
            "no error");
  EXPECT_EQ(error_of("[data]\nsource = \"csv\"\npath = \"a\"\naugment = [\"mixup:0.2\"]"), "no error");
}

}  // namespace
}  // namespace muster::trainer
