// Environments of each launcher, given as a function; none is read.
#include "muster/launch/environment.h"

#include <map>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::launch {
namespace {

Lookup environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Environment, AProcessThatNobodyLaunchedIsAWorldOfOne) {
  const World world = detect_world(environment({}));
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.launcher, "");
}

TEST(Environment, OurOwnLauncherComesFirstAndNamesItsStore) {
  const World world = detect_world(environment({{"MUSTER_RANK", "1"},
                                                {"MUSTER_SIZE", "2"},
                                                {"MUSTER_STORE", "/tmp/somewhere"},
                                                {"OMPI_COMM_WORLD_RANK", "3"},
                                                {"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.launcher, "muster");
  EXPECT_EQ(world.store, "/tmp/somewhere");
}

TEST(Environment, AnAgentTellsItsWorkersWhichHostTheyAreOn) {
  std::map<std::string, std::string> told{{"MUSTER_RANK", "1"},
                                          {"MUSTER_SIZE", "2"},
                                          {"MUSTER_CLUSTER", "file:/tmp/all"},
                                          {"MUSTER_HOST", "3"},
                                          {"MUSTER_INTERFACE", "eth1"}};
  const World world = detect_world(environment(told));
  EXPECT_EQ(world.cluster, "file:/tmp/all");
  EXPECT_EQ(world.host, 3U);
  EXPECT_EQ(world.interface, "eth1");
  told["MUSTER_HOST"] = "0";
  EXPECT_THROW(detect_world(environment(told)), Error);
  told.erase("MUSTER_HOST");
  EXPECT_THROW(detect_world(environment(told)), Error) << "it would take itself for another host";
  told.erase("MUSTER_CLUSTER");
  EXPECT_EQ(detect_world(environment(told)).host, 0U);
}

TEST(Environment, OpenMpiMpichAndSlurmAreRecognised) {
  EXPECT_EQ(detect_world(environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}})).rank, 2);
  EXPECT_EQ(detect_world(environment({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}})).size, 3);
  const World slurm = detect_world(environment({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}}));
  EXPECT_EQ(slurm.rank, 5);
  EXPECT_EQ(slurm.size, 8);
  EXPECT_EQ(slurm.launcher, "srun");
}

TEST(Environment, MpiInsideSlurmCountsAsMpi) {
  const World world = detect_world(environment({{"SLURM_PROCID", "0"},
                                                {"SLURM_STEP_NUM_TASKS", "1"},
                                                {"OMPI_COMM_WORLD_RANK", "3"},
                                                {"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.launcher, "mpirun");
}

TEST(Environment, ASlurmAllocationWithoutAStepIsAWorldOfOne) {
  EXPECT_EQ(detect_world(environment({{"SLURM_NTASKS", "8"}})).size, 1);
}

TEST(Environment, NonsenseIsRefusedByName) {
  for (const char* bad : {"", "x", "-1", "4x", "99999999999999999999"}) {
    try {
      detect_world(environment({{"PMI_RANK", bad}, {"PMI_SIZE", "4"}}));
      FAIL() << "accepted rank \"" << bad << "\"";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      EXPECT_NE(std::string(error.what()).find("PMI_RANK"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(detect_world(environment({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}})), Error);
}

TEST(Environment, SlurmGrantsCores) {
  EXPECT_EQ(granted_cores(environment({{"SLURM_CPUS_PER_TASK", "3"}})), 3);
  EXPECT_EQ(granted_cores(environment({})), std::nullopt);
  EXPECT_THROW(granted_cores(environment({{"SLURM_CPUS_PER_TASK", "0"}})), Error);
}

TEST(Environment, WhatKernelsAreChosenByIsKnown) {
  EXPECT_TRUE(kernel_variables(environment({{"HOME", "/root"}, {"OMP_NUM_THREADS", "3"}})).empty());
  EXPECT_EQ(kernel_variables(environment({{"ATEN_CPU_CAPABILITY", "avx2"}, {"OPENBLAS_CORETYPE", "Haswell"}})),
            (Variables{{"OPENBLAS_CORETYPE", "Haswell"}, {"ATEN_CPU_CAPABILITY", "avx2"}}));
}

TEST(Environment, ASupervisedWorkerIsToldOfItsArenaAndItsPredecessors) {
  const World world = detect_world(environment(
      {{"MUSTER_RANK", "1"}, {"MUSTER_SIZE", "2"}, {"MUSTER_ARENA", "muster-0a:0b"}, {"MUSTER_ATTEMPT", "3"}}));
  EXPECT_EQ(world.arena, "muster-0a:0b");
  EXPECT_EQ(world.attempt, 3);
  const World fixed = detect_world(environment({{"MUSTER_RANK", "1"}, {"MUSTER_SIZE", "2"}}));
  EXPECT_EQ(fixed.arena, "");
  EXPECT_EQ(fixed.attempt, 0);
  for (const char* bad : {"", "-1", "x", "1.5"}) {
    EXPECT_THROW(detect_world(environment({{"MUSTER_RANK", "1"}, {"MUSTER_SIZE", "2"}, {"MUSTER_ATTEMPT", bad}})),
                 Error);
  }
}

TEST(DetectWorld, ThreadsAreOneUnlessSomebodySaysHowMany) {
  EXPECT_EQ(detect_world(environment({})).threads, 1);
  EXPECT_EQ(detect_world(environment({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}})).threads, 1);
  EXPECT_EQ(detect_world(environment({{"MUSTER_THREADS", "3"}})).threads, 3);
  EXPECT_EQ(detect_world(environment({{"MUSTER_RANK", "0"}, {"MUSTER_SIZE", "2"}, {"MUSTER_THREADS", "2"}})).threads,
            2);
  EXPECT_THROW(detect_world(environment({{"MUSTER_THREADS", "0"}})), Error);
  EXPECT_EQ(detect_world(environment({{"MUSTER_RANK", "0"}, {"MUSTER_SIZE", "2"}, {"MUSTER_RUN", "/runs/a"}})).run,
            "/runs/a");
  EXPECT_EQ(detect_world(environment({{"MUSTER_RUN", "/runs/a"}})).run, "") << "nobody has started it";
}

}  // namespace
}  // namespace muster::launch
