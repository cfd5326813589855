// What is written for others to run: hosts that users name, the script for ssh (run by a real shell), Slurm's, and
// Kubernetes' (which tests/launchers/kubernetes_test.py holds against the published schemas).
#include <sys/wait.h>

#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/launch/kubernetes_manifests.h"
#include "muster/launch/slurm_script.h"
#include "muster/launch/ssh_hosts.h"
#include "support/sandbox.h"

namespace muster::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NamedHosts, AreReadFromAListAndFromAFile) {
  EXPECT_THAT(parse_hosts("a:4,me@b"), ElementsAre(NamedHost{"a", 4}, NamedHost{"me@b", std::nullopt}));
  EXPECT_THAT(parse_hosts("[fd00::1]:2,10.0.0.2:1"), ElementsAre(NamedHost{"fd00::1", 2}, NamedHost{"10.0.0.2", 1}));
  EXPECT_THAT(parse_host_file("# all\na slots=4\n\n  b:2 # two\nc\n", "file"),
              ElementsAre(NamedHost{"a", 4}, NamedHost{"b", 2}, NamedHost{"c", std::nullopt}));
  for (const char* wrong : {"", "a,", "a,a:2", "a:0", "a:x", "a:65", "-oProxyCommand=x", "a b", ":4"})
    EXPECT_THROW(parse_hosts(wrong), Error) << wrong;
  try {
    parse_host_file("a\nb cores=3\n", "hosts.txt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("hosts.txt:2"));
  }
  EXPECT_THROW(parse_host_file("# none\n", "file"), Error);
}

// What a real shell makes of it.
constexpr const char* kInputEnds = "sh script < input > out 2>&1";
constexpr const char* kInputStaysOpen =
    "(cat input; until [ -e done ]; do sleep 0.01; done) | (sh script > out 2>&1; code=$?; touch done; exit $code)";
std::string shell(const std::string& script, const std::string& input, const std::filesystem::path& folder, int& code,
                  const char* command = kInputEnds) {
  testing::spill(folder / "script", script);
  testing::spill(folder / "input", input);
  const int status = std::system(fmt::format("cd {} && {}", folder.string(), command).c_str());
  code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return testing::slurp(folder / "out");
}

TEST(RemoteScript, GivesTheAgentItsCertificatesAndItsWords) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path program = folder / "it's muster";
  testing::spill(
      program,
      "#!/bin/sh\ntrap '' TERM\nprintf '%s|' \"$@\"\nfor f in ca.crt cert.crt cert.key; do cat \"$7/$f\"; echo; done\n"
      "stat -c %a \"$7\"; exit 7\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  RemoteAgent agent;
  agent.join = "10.0.0.1:7";
  agent.name = "b; rm -rf $HOME";
  agent.programs = {"/no/such/muster", program.string()};
  agent.certificate_bytes = {2, 3, 4};
  int code = 0;
  const std::string out = shell(remote_script(agent), "AABBBCCCC", folder.path(), code, kInputStaysOpen);
  EXPECT_EQ(code, 7) << out;
  EXPECT_THAT(out, HasSubstr("agent|--join|10.0.0.1:7|--name|b; rm -rf $HOME|--certs|"));
  EXPECT_THAT(out, HasSubstr("AA\nBBB\nCCCC\n700\n"));
}

TEST(RemoteScript, TheAgentHasTheVariablesThatItIsGiven) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path program = folder / "muster";
  testing::spill(program, "#!/bin/sh\nprintf '%s|' \"$OPENBLAS_CORETYPE\" \"$ATEN_CPU_CAPABILITY\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  RemoteAgent agent;
  agent.program = program.string();
  agent.environment = {{"OPENBLAS_CORETYPE", "it's $HOME"}, {"ATEN_CPU_CAPABILITY", "avx2"}};
  int code = 0;
  EXPECT_THAT(shell(remote_script(agent), "", folder.path(), code, kInputStaysOpen), HasSubstr("it's $HOME|avx2|"));
  EXPECT_EQ(code, 0);
}

TEST(RemoteScript, SaysThatThereIsNoMuster) {
  const testing::TemporaryFolder folder;
  RemoteAgent agent;
  agent.program = "/no/such/muster";
  int code = 0;
  const std::string out = shell(remote_script(agent), "", folder.path(), code);
  EXPECT_EQ(code, kNoProgramThere);
  EXPECT_THAT(out, HasSubstr("no muster on this machine"));
}

TEST(LookingScript, SaysWhetherTheAgentWouldFindItsProgram) {
  const testing::TemporaryFolder folder;
  const auto looked = [&](const RemoteAgent& agent) {
    int code = 0;
    const std::string out = shell(looking_script(agent), "", folder.path(), code, "PATH=/bin sh script > out 2>&1");
    EXPECT_EQ(out, "");
    return code;
  };
  RemoteAgent agent;
  agent.programs = {(folder / "first").string(), (folder / "it's second").string()};
  EXPECT_EQ(looked(agent), kNoProgramThere);
  testing::spill(folder / "it's second", "#!/bin/sh\n");
  std::filesystem::permissions(folder / "it's second", std::filesystem::perms::owner_all);
  EXPECT_EQ(looked(agent), 0);
  std::filesystem::remove(folder / "it's second");
  agent.program = "/bin/sh";
  EXPECT_EQ(looked(agent), 0);
  agent.program = "/no/such/muster";
  EXPECT_EQ(looked(agent), kNoProgramThere);
}

// A machine's cache of bundles, below the folder of its login.
class BundleThere : public ::testing::Test {
 protected:
  BundleThere() {
    std::filesystem::create_directories(folder_ / "from/muster/bin");
    std::filesystem::create_directories(folder_ / "from/muster/lib");
    testing::spill(folder_ / "from/muster/bin/muster", "#!/bin/sh\n");
    testing::spill(folder_ / "from/muster/lib/libtorch.so", "whole");
    std::filesystem::permissions(folder_ / "from/muster/bin/muster", std::filesystem::perms::owner_all);
    in_shell("cd from/muster && sha256sum bin/muster lib/libtorch.so > SHA256SUMS && sha256sum SHA256SUMS > ../sums");
    sums_ = testing::slurp(folder_ / "from/sums").substr(0, 64);
  }
  int in_shell(const std::string& words) const {
    return std::system(fmt::format("cd {} && {}", folder_.path().string(), words).c_str());
  }
  // As it would come over the line.
  std::string archive() const {
    EXPECT_EQ(in_shell("tar -C from -cf archive muster"), 0);
    return testing::slurp(folder_ / "archive");
  }
  int bring(const std::string& before = "") {
    int code = 0;
    said_ = shell(before + unpacking_script(".cache/muster/bundle-1", sums_), archive(), folder_.path(), code,
                  "HOME=$PWD sh script < input > out 2>&1");
    EXPECT_FALSE(std::filesystem::exists(folder_ / ".cache/muster/new-bundle-1")) << "half of it was left";
    return code;
  }
  int look() const {
    RemoteAgent agent;
    agent.programs = {"/no/such/muster"};
    agent.bundled = "./.cache/muster/bundle-1/bin/muster";
    agent.bundle_sums = sums_;
    int code = 0;
    shell(looking_script(agent), "", folder_.path(), code, "PATH=/bin:/usr/bin sh script > out 2>&1");
    return code;
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path place_ = folder_ / ".cache/muster/bundle-1";
  std::string sums_;
  std::string said_;
};

TEST_F(BundleThere, IsTakenWithItsChecksumsAndNoOther) {
  testing::spill(folder_ / "from/muster/lib/libtorch.so", "half");
  EXPECT_NE(bring(), 0);
  EXPECT_FALSE(std::filesystem::exists(place_));
  testing::spill(folder_ / "from/muster/lib/libtorch.so", "whole");
  EXPECT_EQ(look(), kNoProgramThere);
  EXPECT_EQ(bring(), 0) << said_;
  EXPECT_EQ(testing::slurp(place_ / "lib/libtorch.so"), "whole");
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(bring(), 0) << "another has brought it meanwhile";
}

TEST_F(BundleThere, OneThatWasDamagedIsNotTrustedAndIsReplaced) {
  const std::vector<std::string> damages{
      "echo half > lib/libtorch.so",
      "rm lib/libtorch.so",
      "rm bin/muster",
      "rm SHA256SUMS",
      // The list is shorter, and what is left of it is right.
      "echo half > lib/libtorch.so && sed -i /libtorch/d SHA256SUMS",
      "chmod -x bin/muster",
  };
  for (const std::string& damage : damages) {
    ASSERT_EQ(bring(), 0) << damage << said_;
    ASSERT_EQ(look(), 0) << damage;
    ASSERT_EQ(in_shell("cd .cache/muster/bundle-1 && " + damage), 0);
    EXPECT_EQ(look(), kNoProgramThere) << damage;
    EXPECT_EQ(bring(), 0) << damage << said_;
    EXPECT_EQ(look(), 0) << damage << said_;
  }
}

// Who was killed while it copied holds no lock any more, and its draft is not taken for a bundle.
TEST_F(BundleThere, WhatAKilledCopyHasLeftIsInNobodysWay) {
  int code = 0;
  shell("tar() { command tar \"$@\"; kill -9 $$; }\n" + unpacking_script(".cache/muster/bundle-1", sums_), archive(),
        folder_.path(), code, "HOME=$PWD sh script < input > out 2>&1");
  EXPECT_NE(code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / ".cache/muster/new-bundle-1"));
  EXPECT_EQ(look(), kNoProgramThere);
  const char* const held_and_killed =
      "(exec 9<.cache/muster; flock 9; : > held; exec sleep 1000) <&- &\n"
      "until [ -e held ]; do :; done; kill -9 $!\n";
  EXPECT_EQ(bring(held_and_killed), 0) << said_;
  EXPECT_EQ(look(), 0);
}

TEST(RemoteScript, EndsTheAgentWithTheConnection) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path program = folder / "muster";
  testing::spill(program, "#!/bin/sh\ntrap 'echo told; exit 9' TERM\ntouch ready\nwhile :; do sleep 0.05; done\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  RemoteAgent agent;
  agent.program = program.string();
  int code = 0;
  // Before that it could not say that it was told.
  const std::string out = shell(remote_script(agent), "", folder.path(), code,
                                "until [ -e ready ]; do sleep 0.01; done | sh script > out 2>&1");
  EXPECT_EQ(code, 9) << out;
  EXPECT_THAT(out, HasSubstr("told"));
}

TEST(SshArguments, HaveNoSecretAndAskNoQuestion) {
  EXPECT_THAT(ssh_arguments("b", "x 'y'"),
              ::testing::AllOf(::testing::Contains("BatchMode=yes"), ::testing::Contains("sh -c 'x '\\''y'\\'''")));
}

TEST(SlurmScript, HasOneTaskANodeAndAWarning) {
  SlurmJob job;
  job.name = "far";
  job.nodes = 4;
  job.cores = 8;
  job.time = "1:00:00";
  job.partition = "cpu";
  job.warning_seconds = 60;
  job.options = {"--account=physics"};
  job.command = {"/opt/my muster", "train", "job.toml"};
  const std::string script = slurm_script(job);
  for (const char* line :
       {"#SBATCH --nodes=4\n", "#SBATCH --ntasks-per-node=1\n", "#SBATCH --cpus-per-task=8\n",
        "#SBATCH --time=1:00:00\n", "#SBATCH --partition=cpu\n", "#SBATCH --signal=USR1@60\n", "#SBATCH --requeue\n",
        "#SBATCH --account=physics\n",
        "srun --ntasks-per-node=1 --cpus-per-task=8 '/opt/my muster' 'train' 'job.toml' || code=$?\n"})
    EXPECT_THAT(script, HasSubstr(line));
  job.time.clear();
  EXPECT_THAT(slurm_script(job), Not(HasSubstr("--time")));
  job.options = {"--x\nrm"};
  EXPECT_THROW(slurm_script(job), Error);
}

// Blanks would end a value, # would begin a comment, % stands for something in the name of a file.
TEST(SlurmScript, ValuesAreWordsOfSbatch) {
  SlurmJob job;
  job.name = "two #words";
  job.partition = "my \"cpu\"";
  job.options = {"--comment=for the paper", "--account=physics", "--exclusive", "-A physics", "--wckey=\"a b\""};
  const std::string script = slurm_script(job);
  for (const char* line :
       {"#SBATCH --job-name=\"two #words\"\n", "#SBATCH --output=\"two #words-%j.log\"\n",
        "#SBATCH --partition=\"my \\\"cpu\\\"\"\n", "#SBATCH --comment=\"for the paper\"\n",
        "#SBATCH --account=physics\n", "#SBATCH --exclusive\n", "#SBATCH -A physics\n", "#SBATCH --wckey=\"a b\"\n"})
    EXPECT_THAT(script, HasSubstr(line));
  job.name = "100%j";
  EXPECT_THAT(slurm_script(job), HasSubstr("--output=100%%j-%j.log\n"));
}

TEST(SlurmScript, TasksAreRanksOfAnMpiWhereTheJobWantsThat) {
  SlurmJob job;
  job.command = {"muster"};
  EXPECT_THAT(slurm_script(job), Not(HasSubstr("--mpi")));
  job.ranks_of_mpi = true;
  EXPECT_THAT(slurm_script(job), HasSubstr("srun --mpi=pmix --ntasks-per-node=1 "));
}

TEST(SlurmScript, ATimeThatIsAllWarningIsRefused) {
  EXPECT_EQ(slurm_seconds("90"), 5400);
  EXPECT_EQ(slurm_seconds("2:30"), 150);
  EXPECT_EQ(slurm_seconds("1:30:05"), 5405);
  EXPECT_EQ(slurm_seconds("1-2"), 93600);
  EXPECT_EQ(slurm_seconds("1-2:30"), 95400);
  EXPECT_EQ(slurm_seconds("1-2:30:05"), 95405);
  for (const char* none : {"", "UNLIMITED", "1:2:3:4", "1-", "-1", "1:", "a", "99999999999999999999", "1-2-3"})
    EXPECT_EQ(slurm_seconds(none), std::nullopt) << none;
  SlurmJob job;
  job.warning_seconds = 130;
  job.time = "2";
  try {
    slurm_script(job);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--time 2 is 120 s"));
  }
  job.time = "3";
  EXPECT_THAT(slurm_script(job), HasSubstr("--time=3\n"));
}

TEST(Kubernetes, NamesAreCheckedAndMade) {
  EXPECT_EQ(kubernetes_name("Big Job_1"), "big-job-1");
  KubernetesJob job;
  for (const char* wrong : {"", "-a", "a-", "A", "1a", "a.b", "a/b"}) {
    job.name = wrong;
    EXPECT_THROW(kubernetes_manifests(job), Error) << wrong;
  }
  job.name = std::string(51, 'a');
  EXPECT_THROW(kubernetes_manifests(job), Error);
}

}  // namespace
}  // namespace muster::launch
