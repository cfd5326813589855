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
  agent.bundled = "./bundled";
  EXPECT_EQ(looked(agent), kNoProgramThere);
  for (const char* name : {"bundled", "it's second"}) {
    testing::spill(folder / name, "#!/bin/sh\n");
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
    EXPECT_EQ(looked(agent), 0) << name;
    std::filesystem::remove(folder / name);
  }
  agent.program = "/bin/sh";
  EXPECT_EQ(looked(agent), 0);
  agent.program = "/no/such/muster";
  EXPECT_EQ(looked(agent), kNoProgramThere);
}

TEST(UnpackingScript, TakesABundleWithItsChecksumsAndNoOther) {
  const testing::TemporaryFolder folder;
  const auto bring = [&](const std::string& program) {
    testing::spill(folder / "from/muster/bin/muster", program);
    EXPECT_EQ(std::system(fmt::format("cd {} && chmod +x from/muster/bin/muster && tar -C from -cf input muster",
                                      folder.path().string())
                              .c_str()),
              0);
    int code = 0;
    const std::string out = shell(unpacking_script(".cache/muster/bundle-1"), testing::slurp(folder / "input"),
                                  folder.path(), code, "HOME=$PWD sh script < input > out 2>&1");
    EXPECT_EQ(
        std::system(fmt::format("cd {} && ! ls -d .cache/muster/new-* 2>/dev/null", folder.path().string()).c_str()), 0)
        << "half of it was left";
    return code;
  };
  std::filesystem::create_directories(folder / "from/muster/bin");
  testing::spill(folder / "from/muster/bin/muster", "whole");
  ASSERT_EQ(std::system(
                fmt::format("cd {}/from/muster && sha256sum bin/muster > SHA256SUMS", folder.path().string()).c_str()),
            0);
  EXPECT_NE(bring("half"), 0);
  EXPECT_FALSE(std::filesystem::exists(folder / ".cache/muster/bundle-1"));
  EXPECT_EQ(bring("whole"), 0);
  EXPECT_EQ(testing::slurp(folder / ".cache/muster/bundle-1/bin/muster"), "whole");
  EXPECT_EQ(bring("whole"), 0) << "another has brought it meanwhile";
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
