// What jobs may be started on several nodes: the same answer from muster launch slurm, from launch kubernetes and when
// nodes have been started, with the key of the job at fault and what to type instead.
#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_program;

// Of a start by hand: this process is the first of two nodes.
class TwoNodes {
 public:
  TwoNodes() {
    for (const auto& [name, value] : kVariables)
      ::setenv(name, value, 1);
  }
  TwoNodes(const TwoNodes&) = delete;
  TwoNodes& operator=(const TwoNodes&) = delete;
  ~TwoNodes() {
    for (const auto& [name, value] : kVariables)
      ::unsetenv(name);
  }

 private:
  static constexpr std::pair<const char*, const char*> kVariables[] = {
      {"MUSTER_NODES", "2"}, {"MUSTER_NODE", "0"}, {"MUSTER_MEETING", "test"}, {"MUSTER_SHARED", "meeting"}};
};

struct Refused {
  std::vector<std::string> job;  // over the small job
  std::string place;             // of the key at fault
  std::string remedy;
};

class LaunchTest : public ::testing::Test {
 protected:
  void write(const std::vector<std::string>& more) {
    testing::spill(folder_ / "job.toml", testing::small_job("job", more));
  }
  Finished muster(const std::vector<std::string>& arguments) { return run_program(folder_.path(), arguments); }
  // Every way to start a job on two nodes that needs none of them.
  std::vector<Finished> started_on_two() {
    std::vector<Finished> all{muster({"launch", "slurm", "job.toml", "--nodes", "2", "--dry-run"}),
                              muster({"launch", "slurm", "--nodes", "2", "--dry-run", "--", "job.toml"}),
                              muster({"launch", "kubernetes", "job.toml", "--image", "i", "--hosts", "2"})};
    const TwoNodes nodes;
    all.push_back(muster({"train", "job.toml"}));
    return all;
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(LaunchTest, AJobThatNodesCannotShareIsRefusedByAllLaunchers) {
  const std::vector<Refused> cases{
      {{"federated.clients=3", "federated.per_round=3", "job.epochs="}, "federated.clients", "federated server"},
      {{"data.source=\"csv\"", "data.shape=", "data.samples=", "data.test_samples=", "data.path=\"t.csv\"",
        "data.target=\"y\"", "data.partition=\"vertical\"", "vertical.id=\"id\"", "vertical.parties=[\"bank\"]",
        "job.lanes="},
       "data.partition",
       "federated vertical labels"},
      {{"parallel.hosts=3"}, "parallel.hosts", "Start it on as many"},
  };
  for (const Refused& one : cases) {
    write(one.job);
    for (const Finished& refused : started_on_two()) {
      EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
      EXPECT_THAT(refused.err, AllOf(HasSubstr("job.toml:"), HasSubstr(one.place), HasSubstr(one.remedy)));
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << one.place;
  }
}

TEST_F(LaunchTest, WhatNodesCannotShareIsForOneNode) {
  write({"federated.clients=3", "federated.per_round=3", "job.epochs="});
  const Finished one = muster({"launch", "slurm", "job.toml", "--nodes", "1", "--dry-run"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("#SBATCH --nodes=1\n"));
  const TwoNodes nodes;
  const Finished simulated = muster({"federated", "simulate", "job.toml"});
  EXPECT_EQ(simulated.exit_code, 2);
  EXPECT_THAT(simulated.err, HasSubstr("each of several would train all of them"));
}

// What a mesh can be with is the job's own rule: whatever it says of two hosts all launchers say.
TEST_F(LaunchTest, AMeshIsJudgedAsTheJobFileIs) {
  write({"parallel.mesh={ pipeline = 2 }"});
  const int judged = muster({"check", "job.toml", "--set", "parallel.hosts=2"}).exit_code;
  EXPECT_EQ(muster({"launch", "slurm", "job.toml", "--nodes", "2", "--dry-run"}).exit_code, judged);
  EXPECT_EQ(muster({"launch", "kubernetes", "job.toml", "--image", "i", "--hosts", "2"}).exit_code, judged);
}

TEST_F(LaunchTest, AnMpiIsStartedWhereTheJobSendsByIt) {
  write({"parallel.network=\"mpi\""});
  EXPECT_THAT(muster({"launch", "slurm", "job.toml", "--dry-run"}).out, HasSubstr("srun --mpi=pmix "));
  EXPECT_THAT(muster({"launch", "slurm", "job.toml", "--nodes", "1", "--dry-run"}).out, Not(HasSubstr("--mpi")));
  const Finished pods = muster({"launch", "kubernetes", "job.toml", "--image", "i"});
  EXPECT_EQ(pods.exit_code, 2);
  EXPECT_THAT(pods.err, AllOf(HasSubstr("job.toml:"), HasSubstr("parallel.network"), HasSubstr("no MPI")));
}

// Its Python is a shell here: what it is told to run, and that its first step counts.
TEST_F(LaunchTest, TorchrunCanStandBesideAStart) {
  testing::spill(folder_ / "python",
                 "#!/bin/sh\n[ \"$2\" = torch.distributed.run ] && [ -s \"$5\" ] && echo '{\"step\": 1}'\n");
  std::filesystem::permissions(folder_ / "python", std::filesystem::perms::owner_all);
  const Finished started = muster(
      {"bench", "start", "echo '{\"step\": 1}'", "--torchrun", "3", "--python", "./python", "--rounds", "1", "--json"});
  ASSERT_EQ(started.exit_code, 0) << started.err;
  const std::vector<Json> rows = testing::rows(started.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(rows[1].at("command").get<std::string>(), HasSubstr("torch.distributed.run --nproc_per_node 3 "));
  EXPECT_TRUE(rows[1].contains("over_first"));
}

TEST_F(LaunchTest, ItsHelpHasExamplesOfItsOwn) {
  const std::string help = muster({"launch", "--help"}).out;
  EXPECT_THAT(help, AllOf(HasSubstr("muster launch slurm job.toml"), Not(HasSubstr("muster init table.csv"))));
  EXPECT_THAT(muster({"--help"}).out, HasSubstr("muster init table.csv"));
}

}  // namespace
}  // namespace muster
