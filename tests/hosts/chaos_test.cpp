// muster chaos --hosts on a real job: hosts are lost, come back, fall apart, and what is left is that of one worker on
// one host. The short form of the runs in docs/performance-hosts.md.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hosts.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

class HostsChaosTest : public ::testing::Test {
 protected:
  HostsChaosTest() {
    spill(folder_ / "job.toml",
          stateful_job("shaken",
                       {"job.epochs=100000", "job.ledger=true", "data.samples=6000", "parallel.workers=1",
                        "parallel.host_seconds=2.0", "checkpoint.every_steps=50", "optimizer.schedule=\"constant\""}));
  }
  Finished chaos(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"chaos", "job.toml", "--hosts", "3"});
    // Each commit takes a while: a job of steps that take no time at all is nothing that happens to people.
    const Failpoints slow("arena.commit.before_arrival=delay=20");
    return Program(folder_.path(), std::move(arguments)).wait(std::chrono::seconds(300));
  }
  static std::string verdict(const Json& report, const std::string& name) {
    for (const Json& finding : report.at("invariants"))
      if (finding.at("name") == name) return finding.at("verdict");
    return "missing";
  }

  TemporaryFolder folder_;
};

TEST_F(HostsChaosTest, AJobWhoseHostsAreLostAndCutOffKeepsEveryPromise) {
  if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
  const Finished result = chaos({"--faults", "host=20,split=10", "--count", "3", "--calm", "2", "--seed", "3", "--then",
                                 "stop", "--compare", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const Json report = rows(result.out).back();
  EXPECT_EQ(report.at("faults").at("host"), 2) << result.err;
  EXPECT_EQ(report.at("faults").at("split"), 1) << result.err;
  for (const char* name : {"end", "I1", "I2", "I3", "I4", "I5", "I6", "I7", "cut"})
    EXPECT_EQ(verdict(report, name), "pass") << name << "\n" << result.out << result.err;
  EXPECT_EQ(report.at("seconds_to_commit").size(), 3U);
}

TEST_F(HostsChaosTest, MistakesAreToldBeforeAnythingStarts) {
  const auto mistake = [&](std::vector<std::string> arguments, const std::string& told) {
    const Finished result = chaos(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(told));
  };
  mistake({"--faults", "kill"}, "Faults are host, freeze, link, oneway, split and coordinator");
  mistake({"--set", "parallel.strategy=all_reduce"}, "does not outlive a fault");
  mistake({"--goal", "0.9"}, "throughput is not measured on hosts");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

}  // namespace
}  // namespace muster::testing
