// A user's program whose parameters are on servers, in processes of their own: exact sums alone and with several
// workers, through the loss of a worker and of a server, and the mistakes that one can make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::run_program;
using testing::TemporaryFolder;

Finished run(const std::filesystem::path& folder, std::vector<std::string> flags, std::vector<std::string> arguments) {
  flags.insert(flags.begin(), "run");
  flags.emplace_back(OWN_SERVERS);
  flags.insert(flags.end(), arguments.begin(), arguments.end());
  return run_program(folder, flags);
}

// Begun with 1; every push takes 1 away.
std::string sums(int pushes) {
  return fmt::format("weights {}, rows {}\n", 1 - pushes, 4 * pushes);
}

bool serves(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str().find("MUSTER_SERVE=1") != std::string::npos;
}

TEST(OwnServers, SumAllPushesExactlyForAnyWorkersAndServers) {
  const TemporaryFolder folder;
  EXPECT_EQ(run(folder.path(), {"-n", "1"}, {"train", "200"}).out, sums(200)) << "threads of the program";
  for (const auto& [workers, servers] : {std::pair("1", "1"), std::pair("3", "2")}) {
    const Finished result = run(folder.path(), {"-n", workers, "--servers", servers}, {"train", "200"});
    EXPECT_EQ(result.out, sums(200 * std::atoi(workers))) << result.err;
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST(OwnServers, ApplyAnUpdateOfTheProgramsOwn) {
  const TemporaryFolder folder;
  const Finished result = run(folder.path(), {"-n", "2", "--servers", "2"}, {"rule", "50"});
  EXPECT_EQ(result.out, fmt::format("weights {}, rows {}\n", 1 + 100, 400)) << result.err;
}

TEST(OwnServers, AWorkerThatIsLostIsStartedAgain) {
  const TemporaryFolder folder;
  const Finished result = run(folder.path(), {"-n", "2", "--servers", "2"}, {"killed", "200"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("is lost")) << "half of the work was done twice";
  EXPECT_EQ(result.out, sums(200 * 2 + 100)) << result.err;
}

// What the others push before its successor has filled the servers again would be gone.
TEST(OwnServers, TheFirstWorkerMayBeLostWhenItHasFilledThem) {
  const TemporaryFolder folder;
  const Finished result = run(folder.path(), {"-n", "3", "--servers", "2"}, {"filled", "200"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("is lost"));
  EXPECT_EQ(result.out, sums(200 * 3)) << result.err;
}

TEST(OwnServers, WithCopiesAServerMayBeLost) {
  const TemporaryFolder folder;
  Program program(folder.path(), {"run", "-n", "2", "--servers", "2", "--copies", "2", OWN_SERVERS, "slow", "400"});
  pid_t server = 0;
  ASSERT_TRUE(testing::eventually([&] {
    for (const pid_t child : testing::children_of(program.pid()))
      if (serves(child)) server = child;
    return server != 0;
  })) << program.err();
  ::kill(server, SIGKILL);
  const Finished result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, sums(400 * 2)) << result.err;
}

// Whoever watches them replaces or ends those that do not get on: the program's own time-out is for others.
TEST(OwnServers, MayTakeLongerToComeThanTheProgramsCallsWait) {
  const TemporaryFolder folder;
  const Finished result = run(folder.path(), {"-n", "2", "--servers", "2"}, {"late", "50"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, sums(50 * 2)) << result.err;
}

TEST(OwnServers, MistakesAreNamed) {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<std::string> flags, const char* mode, const char* words) {
    const Finished result = run(folder.path(), std::move(flags), {mode, "5"});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  refused({"-n", "2"}, "train", "2 workers and no parameter servers");
  refused({"-n", "2", "--servers", "2"}, "differ", "the plan of worker 1 has other optimizer than that of worker 0");
  refused({"-n", "2", "--servers", "1", "--copies", "2"}, "train", "--copies 2 with --servers 1");
  refused({"-n", "2", "--copies", "2"}, "train", "there are no parameter servers");
}

// What a job is started again for is any program's.
TEST(Restarts, AreForJobsThatFailedAndNotForMistakes) {
  const auto tries = [](std::vector<std::string> flags, const char* script, int code) {
    const TemporaryFolder folder;
    flags.insert(flags.begin(), {"run", "-n", "1"});
    flags.insert(flags.end(), {"sh", "-c", std::string("echo x >> tries; ") + script});
    const Finished result = run_program(folder.path(), flags);
    EXPECT_EQ(result.exit_code, code) << script << "\n" << result.err;
    return testing::slurp(folder / "tries").size() / 2;
  };
  EXPECT_EQ(tries({}, "exit 1", 1), 1U);
  EXPECT_EQ(tries({"--max-restarts", "2"}, "exit 1", 1), 3U);
  EXPECT_EQ(tries({"--max-restarts", "9"}, "test $(wc -l < tries) -ge 3", 0), 3U);
  EXPECT_EQ(tries({"--max-restarts", "9"}, "exit 2", 2), 1U);
}

TEST(Restarts, AreNotForJobsThatWereStopped) {
  const TemporaryFolder folder;
  Program program(folder.path(), {"run", "-n", "1", "--max-restarts", "9", "sh", "-c",
                                  "echo x >> tries; trap 'kill $!; exit 1' TERM; sleep 60 & wait"});
  ASSERT_TRUE(testing::eventually([&] { return std::filesystem::exists(folder / "tries"); })) << program.err();
  const TemporaryFolder elsewhere;
  ASSERT_TRUE(testing::eventually([&] {
    return run_program(elsewhere.path(), {"stop", "sh", "--runs", (folder / "runs").string()}).exit_code == 0;
  })) << program.err();
  EXPECT_NE(program.wait().exit_code, 0);
  EXPECT_EQ(testing::slurp(folder / "tries"), "x\n");
}

}  // namespace
}  // namespace muster
