// What started a process, read from variables as real launchers set them (taken down from Slurm 22.05 and Open
// MPI 4.1).
#include "muster/launch/surroundings.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Lookup environment(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more)
    variables[name] = value;
  return variables;
}

// srun -N2 --ntasks-per-node=1, as its second task has it.
const Variables kStep{{"SLURM_JOB_ID", "42"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "1"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_JOB_NUM_NODES", "2"},
                      {"SLURM_STEP_NUM_NODES", "2"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_STEP_NODELIST", "n[1-2]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                      {"SLURM_CPUS_ON_NODE", "8"},
                      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};
// A batch script of two nodes.
const Variables kBatch{{"SLURM_JOB_ID", "42"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NUM_NODES", "2"},
                       {"SLURM_NTASKS", "2"},  {"SLURM_NODEID", "0"}, {"SLURM_CPUS_ON_NODE", "8"}};
// mpirun -N 1 on two hosts, as its second rank has it.
const Variables kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "2"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
    {"OMPI_MCA_orte_num_nodes", "2"},
    {"PMIX_NAMESPACE", "1866006529"},
    {"PMIX_RANK", "1"},
    {"OMPI_MCA_orte_hnp_uri", "1866006528.0;tcp://10.0.0.1,10.1.0.1:59393;tcp6://[fd00::2]:34299"}};
const Variables kHand{{"MUSTER_NODES", "3"}, {"MUSTER_NODE", "2"}, {"MUSTER_COORDINATOR", "first:7400"}};

constexpr auto kNoServer = []() -> std::optional<PmixJob> { return std::nullopt; };

struct Row {
  const char* what;
  Variables variables;
  std::string launcher;
  int node;
  int nodes;
  std::string trouble;  // a part of it; empty: there is none
};

TEST(Surroundings, AreReadFromWhatLaunchersSet) {
  const std::vector<Row> table{
      {"nothing", {}, "", 0, 1, ""},
      {"srun", kStep, "slurm", 1, 2, ""},
      {"srun on one node",
       with(kStep, {{"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_NODES", "1"},
                    {"SLURM_STEP_NUM_TASKS", "1"},
                    {"SLURM_STEP_NODELIST", "n1"},
                    {"SLURM_STEP_TASKS_PER_NODE", "1"}}),
       "slurm", 0, 1, ""},
      {"srun, two tasks a node", with(kStep, {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}),
       "slurm", 1, 4, "srun started 2 processes on n1"},
      {"srun, two tasks on one of the nodes",
       with(kStep, {{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "1,2"}}), "slurm", 1, 3, "on n2"},
      {"srun, no word on tasks a node", with(kStep, {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", ""}}),
       "slurm", 1, 4, "4 processes on 2 nodes"},
      {"a batch script without srun", kBatch, "slurm", 0, 1, "not started by srun"},
      {"a batch script of one node", with(kBatch, {{"SLURM_JOB_NUM_NODES", "1"}}), "slurm", 0, 1, ""},
      {"mpirun", kOpenMpi, "mpi", 1, 2, ""},
      {"mpirun, two ranks here", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), "mpi", 1, 2,
       "2 processes on this machine"},
      {"mpirun, two ranks elsewhere", with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "3"}}), "mpi", 1, 3,
       "3 processes on 2 machines"},
      {"mpirun without a name", with(kOpenMpi, {{"PMIX_NAMESPACE", ""}, {"OMPI_MCA_orte_hnp_uri", ""}}), "mpi", 1, 2,
       "no name that all of them share"},
      {"mpirun inside of Slurm", with(kStep, kOpenMpi), "mpi", 1, 2, ""},
      {"MPICH's", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "mpi", 0, 1, "other than Open MPI"},
      {"MPICH's, alone", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, "", 0, 1, ""},
      {"Slurm's own PMI", with(kStep, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "slurm", 1, 2, ""},
      {"PMIx alone, and no server", {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}}, "pmix", 0, 1, "how many processes"},
      {"by hand", kHand, "hand", 2, 3, ""},
      {"by hand inside of Slurm", with(kStep, kHand), "hand", 2, 3, ""},
      {"by hand, nowhere to meet", {{"MUSTER_NODES", "2"}, {"MUSTER_NODE", "0"}}, "hand", 0, 2, "where the nodes meet"},
      {"by hand, a folder without a name",
       {{"MUSTER_NODES", "2"}, {"MUSTER_NODE", "0"}, {"MUSTER_SHARED", "/x"}},
       "hand",
       0,
       2,
       "where the nodes meet"},
      {"by hand, a folder",
       {{"MUSTER_NODES", "2"}, {"MUSTER_NODE", "0"}, {"MUSTER_SHARED", "/x"}, {"MUSTER_MEETING", "a"}},
       "hand",
       0,
       2,
       ""},
  };
  for (const Row& row : table) {
    const Surroundings found = detect_surroundings(environment(row.variables), kNoServer);
    EXPECT_EQ(found.launcher, row.launcher) << row.what;
    EXPECT_EQ(found.node, row.node) << row.what;
    EXPECT_EQ(found.nodes, row.nodes) << row.what;
    EXPECT_FALSE(found.reason.empty()) << row.what;
    EXPECT_EQ(found.trouble.empty(), row.trouble.empty()) << row.what << ": " << found.trouble;
    EXPECT_THAT(found.trouble, HasSubstr(row.trouble)) << row.what;
    EXPECT_EQ(found.remedy.empty(), found.trouble.empty()) << row.what;
    if (row.trouble.empty())
      EXPECT_NO_THROW(require_usable(found)) << row.what;
    else
      EXPECT_THROW(require_usable(found), Error) << row.what;
  }
}

TEST(Surroundings, OfPmixAloneItsServerIsAsked) {
  const Variables variables{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-a-1@1"}};
  const auto found = [&](const PmixJob& job, const Variables& more = {}) {
    return detect_surroundings(environment(with(variables, more)), [&] { return std::optional(job); });
  };
  const Surroundings two = found({.rank = 1, .size = 2, .machines = 2});
  EXPECT_EQ(two.launcher, "pmix");
  EXPECT_EQ(two.node, 1);
  EXPECT_EQ(two.nodes, 2);
  EXPECT_TRUE(two.together);
  EXPECT_TRUE(two.ranks_of_mpi);
  EXPECT_THAT(two.trouble, ::testing::IsEmpty());
  EXPECT_EQ(two.name, found({.rank = 1, .size = 2}).name);
  EXPECT_NE(two.name, found({.rank = 1, .size = 2}, {{"PMIX_NAMESPACE", "prterun-a-1@2"}}).name);
  EXPECT_THAT(to_string(two), HasSubstr("PMIx: node 1 of 2"));
  EXPECT_THAT(found({.rank = 1, .size = 2, .here = 2}).trouble, HasSubstr("2 processes on this machine"));
  EXPECT_THAT(found({.rank = 1, .size = 3, .machines = 2}).trouble, HasSubstr("3 processes on 2 machines"));
  EXPECT_THAT(found({.rank = 0, .size = 2}).trouble, HasSubstr("how many processes")) << "another's server";
  // In an allocation it is the launcher's ranks that count, on what Slurm has granted; unless it is srun itself.
  const Surroundings inside = found({.rank = 1, .size = 2}, with(kBatch, {{"SLURM_MEM_PER_NODE", "2048"}}));
  EXPECT_EQ(inside.launcher, "pmix");
  EXPECT_THAT(inside.reason, HasSubstr("inside of Slurm job 42"));
  EXPECT_EQ(inside.memory_bytes, std::uint64_t{2048} << 20);
  EXPECT_EQ(found({.rank = 1, .size = 2}, with(kStep, {{"PMIX_NAMESPACE", "slurm.pmix.42.0"}})).launcher, "slurm");
  // Those of Open MPI and Slurm say it themselves, and nobody is asked.
  const auto nobody = []() -> std::optional<PmixJob> { throw std::runtime_error("asked"); };
  EXPECT_TRUE(detect_surroundings(environment(kOpenMpi), nobody).ranks_of_mpi);
  EXPECT_FALSE(detect_surroundings(environment(kStep), nobody).ranks_of_mpi);
  EXPECT_TRUE(detect_surroundings(environment(with(kStep, {{"PMIX_RANK", "1"}})), nobody).ranks_of_mpi);
}

TEST(Surroundings, SayWhatSlurmGrants) {
  const Surroundings plain = detect_surroundings(environment(kStep));
  EXPECT_EQ(plain.cores, 8);
  EXPECT_EQ(plain.memory_bytes, std::nullopt);
  EXPECT_THAT(plain.names, ElementsAre("n1", "n2"));
  EXPECT_THAT(plain.towards, ElementsAre("10.0.0.1"));
  EXPECT_TRUE(plain.together);
  const Surroundings limited =
      detect_surroundings(environment(with(kStep, {{"SLURM_CPUS_PER_TASK", "4"}, {"SLURM_MEM_PER_NODE", "2048"}})));
  EXPECT_EQ(limited.cores, 4);
  EXPECT_EQ(limited.memory_bytes, std::uint64_t{2048} << 20);
  const Memory small = memory_in({.memory_bytes = 1 << 20});
  EXPECT_EQ(small.usable_bytes, std::uint64_t{1} << 20);
  EXPECT_THAT(small.reason, HasSubstr("Slurm"));
  EXPECT_THAT(memory_in({.memory_bytes = std::uint64_t{1} << 60}).reason, ::testing::Not(HasSubstr("Slurm")));
  EXPECT_EQ(
      detect_surroundings(environment(with(kOpenMpi, with(kBatch, {{"SLURM_MEM_PER_NODE", "2048"}})))).memory_bytes,
      std::uint64_t{2048} << 20)
      << "mpirun inside of an allocation";
  const Surroundings by_core = detect_surroundings(environment(with(kStep, {{"SLURM_MEM_PER_CPU", "512"}})));
  EXPECT_EQ(by_core.memory_bytes, std::uint64_t{8 * 512} << 20);
}

TEST(Surroundings, AStartHasANameThatNoOtherHas) {
  const auto name = [](const Variables& variables) { return detect_surroundings(environment(variables)).name; };
  EXPECT_EQ(name(kStep), name(with(kStep, {{"SLURM_PROCID", "0"}})));
  EXPECT_NE(name(kStep), name(with(kStep, {{"SLURM_STEP_ID", "1"}})));
  EXPECT_NE(name(kStep), name(with(kStep, {{"SLURM_JOB_ID", "43"}})));
  EXPECT_NE(name(kStep), name(with(kStep, {{"SLURM_RESTART_COUNT", "1"}})));
  EXPECT_EQ(name(kOpenMpi), name(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}})));
  EXPECT_NE(name(kOpenMpi), name(with(kOpenMpi, {{"PMIX_NAMESPACE", "7"}})));
  EXPECT_NE(name(kOpenMpi), name(with(kOpenMpi, {{"OMPI_MCA_orte_hnp_uri", "7.0;tcp://10.0.0.1:1"}})));
}

TEST(Surroundings, WhatStaysWhenSlurmStartsAJobAgain) {
  const Surroundings first = detect_surroundings(environment(kStep));
  const Surroundings second = detect_surroundings(environment(with(kStep, {{"SLURM_RESTART_COUNT", "2"}})));
  EXPECT_EQ(first.job, second.job);
  EXPECT_EQ(first.restarts, 0);
  EXPECT_EQ(second.restarts, 2);
  EXPECT_NE(first.job, detect_surroundings(environment(with(kStep, {{"SLURM_JOB_ID", "43"}}))).job);
}

TEST(Surroundings, TheWayToMpirunShowsTheNetwork) {
  EXPECT_THAT(detect_surroundings(environment(kOpenMpi)).towards, ElementsAre("10.0.0.1", "10.1.0.1"));
}

TEST(Surroundings, AValueThatMakesNoSenseIsNamed) {
  const auto expect_named = [](const Variables& variables, const std::string& variable) {
    try {
      detect_surroundings(environment(variables));
      ADD_FAILURE() << variable;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(variable));
    }
  };
  expect_named(with(kStep, {{"SLURM_PROCID", "x"}}), "SLURM_PROCID");
  expect_named(with(kStep, {{"SLURM_PROCID", "2"}}), "SLURM_PROCID");
  expect_named(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "-1"}}), "OMPI_COMM_WORLD_SIZE");
  expect_named({{"MUSTER_NODES", "2"}}, "MUSTER_NODE");
  expect_named({{"MUSTER_NODES", "2"}, {"MUSTER_NODE", "2"}}, "MUSTER_NODE");
  expect_named(with(kStep, {{"SLURM_STEP_NODELIST", "n[1-"}}), "n[1-");
}

TEST(NodeList, IsWhatSlurmWouldExpandItTo) {
  EXPECT_THAT(expand_node_list("a"), ElementsAre("a"));
  EXPECT_THAT(expand_node_list("n[1-3,7],login"), ElementsAre("n1", "n2", "n3", "n7", "login"));
  EXPECT_THAT(expand_node_list("n[08-11]x"), ElementsAre("n08x", "n09x", "n10x", "n11x"));
  EXPECT_THAT(expand_node_list("r[1-2]n[01-02]"), ElementsAre("r1n01", "r1n02", "r2n01", "r2n02"));
  for (const char* wrong : {"", ",a", "a,", "n[1", "n1]", "n[]", "n[2-1]", "n[1-x]", "n[[1]]", "n[1-99999999]",
                            "n[1-1000]m[1-1000]", "n[1-18446744073709551615]"})
    EXPECT_THROW(expand_node_list(wrong), Error) << wrong;
}

TEST(TaskCounts, AreExpanded) {
  EXPECT_THAT(expand_task_counts("1"), ElementsAre(1));
  EXPECT_THAT(expand_task_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* wrong : {"", "x", "1(x", "1(x)", "1(x2", "1(x99999999)", "99999999"})
    EXPECT_THROW(expand_task_counts(wrong), Error) << wrong;
}

}  // namespace
}  // namespace muster::launch
