// muster chaos on a real job: it disturbs, the job holds, and chaos says no when something is wrong.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;

// Many short steps; more than anybody waits for.
class ChaosTest : public ::testing::Test {
 protected:
  ChaosTest() {
    testing::spill(
        folder_ / "job.toml",
        testing::small_job("shaken", {"job.epochs=100000", "job.lanes=2", "job.ledger=true", "data.samples=6000",
                                      "parallel.workers=2", "checkpoint.every_steps=200"}));
  }

  Finished chaos(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "chaos");
    return testing::Program(folder_.path(), std::move(arguments)).wait(std::chrono::seconds(240));
  }
  static std::string verdict(const Json& report, const std::string& name) {
    for (const Json& finding : report.at("invariants"))
      if (finding.at("name") == name) return finding.at("verdict");
    return "missing";
  }

  testing::TemporaryFolder folder_;
};

// The short form of the soak in docs/performance.md.
TEST_F(ChaosTest, AJobThatIsKilledAndStoppedKeepsEveryPromise) {
  // Memory groups are for root; the other faults are for everybody.
  const bool root = ::geteuid() == 0 && std::filesystem::exists("/sys/fs/cgroup/memory");
  const Finished result = chaos({"job.toml", "--faults", root ? "kill=20,stop=10,oom=10" : "kill=24,stop=12", "--calm",
                                 "1", "--minutes", "0.2", "--seed", "11", "--then", "stop", "--compare", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Json report = rows(result.out).back();
  EXPECT_GE(report.at("faults").at("kill"), 1) << result.err;
  for (const char* name : {"end", "I1", "I3", "I4", "I5", "I6", "I7"})
    EXPECT_EQ(verdict(report, name), "pass") << name << "\n" << result.out << result.err;
  EXPECT_EQ(verdict(report, "I2"), "not checked");
  EXPECT_GT(report.at("throughput").at("ideal_steps"), 0) << result.out;
}

TEST_F(ChaosTest, SoDoesOneWhoseStateIsWithServers) {
  const Finished result =
      chaos({"job.toml", "--set", "parallel.strategy=parameter_server", "--faults", "kill=20", "--calm", "1",
             "--minutes", "0.15", "--seed", "5", "--then", "stop", "--compare", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Json report = rows(result.out).back();
  EXPECT_GE(report.at("faults").at("kill"), 1) << result.err;
  for (const char* name : {"end", "I1", "I3", "I5"})
    EXPECT_EQ(verdict(report, name), "pass") << name << "\n" << result.out << result.err;
}

TEST_F(ChaosTest, TheWeightsOfAnotherJobAreNotTheSame) {
  const std::vector<std::string> few{"--set", "job.steps=400", "--faults", "kill=20", "--calm", "0", "--json"};
  const Finished other = run_program(folder_.path(), {"train", "job.toml", "--quiet", "--set", "job.steps=400", "--set",
                                                      "job.seed=2", "--set", "job.runs=others"});
  ASSERT_EQ(other.exit_code, 0) << other.err;
  std::vector<std::string> arguments{"job.toml", "--runs", "others", "--reference", "shaken"};
  arguments.insert(arguments.end(), few.begin(), few.end());
  const testing::Failpoints slow("arena.commit.before_flip=delay=5");  // else it ends before chaos has seen it
  const Finished result = chaos(arguments);
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  const Json report = rows(result.out).back();
  EXPECT_EQ(report.at("good"), false);
  EXPECT_EQ(verdict(report, "I3"), "FAILED") << result.out;
  EXPECT_EQ(verdict(report, "I1"), "pass") << result.out;
  EXPECT_EQ(verdict(report, "I7"), "pass") << result.out;
}

TEST_F(ChaosTest, ALedgerThatWasDoctoredFails) {
  std::vector<std::string> arguments{"chaos",  "job.toml", "--set", "job.steps=600", "--faults",
                                     "kill=6", "--calm",   "0",     "--json"};
  const testing::Failpoints slow("arena.commit.before_flip=delay=5");  // else it ends before that
  testing::Program program(folder_.path(), arguments);
  std::filesystem::path victim;
  ASSERT_TRUE(testing::eventually([&] {
    // Folders come and go there: such a look ends early, and the next one finds it.
    std::error_code code;
    for (std::filesystem::recursive_directory_iterator entry(folder_ / "runs", code), end; entry != end;
         entry.increment(code))
      if (entry->path().extension() == ".ledger" && entry->file_size(code) > 10'000) victim = entry->path();
    return !victim.empty();
  }));
  {
    std::fstream file(victim, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(5000);
    const int byte = file.get();
    file.seekp(5000);
    file.put(static_cast<char>(byte ^ 1));
  }
  const Finished result = program.wait(std::chrono::seconds(240));
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_EQ(verdict(rows(result.out).back(), "I1"), "FAILED") << result.out;
  EXPECT_EQ(verdict(rows(result.out).back(), "I3"), "not checked") << result.out;
}

TEST_F(ChaosTest, MistakesAreToldBeforeAnythingStarts) {
  const auto mistake = [&](std::vector<std::string> arguments, const std::string& told) {
    const Finished result = chaos(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(told));
  };
  mistake({"job.toml", "--faults", "kil"}, "did you mean \"kill\"?");
  mistake({"job.toml", "--set", "parallel.strategy=all_reduce"}, "does not outlive a fault");
  mistake({"job.toml", "--set", "parallel.strategy=parameter_server", "--set", "parallel.consistency=asp", "--compare"},
          "no two runs");
  mistake({"nothing"}, "there is no run \"nothing\"");
  mistake({"job.toml", "--reference", "nothing"}, "there is no run \"nothing\"");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

}  // namespace
}  // namespace muster
