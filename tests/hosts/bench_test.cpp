// muster bench step --hosts as people call it: rows that say what was measured between hosts, and refusals that say
// what to do. Nothing here asserts how fast anything is.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hosts.h"
#include "support/program.h"
#include "support/sandbox.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class HostsBenchTest : public ::testing::Test {
 protected:
  Finished bench(std::vector<std::string> more) {
    std::vector<std::string> words{"bench", "step",    "--model", "cnn",     "--batch", "2",     "--rounds",
                                   "2",     "--steps", "1",       "--hosts", "2",       "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Program(folder_.path(), words).wait(std::chrono::seconds(300));
  }
  static void require_hosts() {
    if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
  }

  const TemporaryFolder folder_;
};

TEST_F(HostsBenchTest, SaysWhatGoesBetweenHosts) {
  require_hosts();
  if (IsSkipped()) return;
  const Finished done = bench({"--link", "1gbit", "--workers", "1,2"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::vector<Json> table = rows(done.out);
  ASSERT_THAT(table, SizeIs(4)) << done.out;
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& row = table[i];
    EXPECT_EQ(row.at("strategy"), "shared_sync");
    EXPECT_EQ(row.at("hosts"), 2);
    EXPECT_EQ(row.at("workers"), 2 * (i + 1));
    EXPECT_EQ(row.at("link"), "1gbit");
    EXPECT_FALSE(row.contains("ratio_to_ddp"));
    for (const char* key : {"samples_per_s", "link_gbit_per_s", "exchange_ms", "link_share", "of_ceiling"})
      EXPECT_GT(row.at(key), 0.0) << key;
  }
  EXPECT_EQ(table[2].at("strategy"), "apart");
  // Two workers of a host send what one would: a tenth is for packets that hold a little more or less.
  EXPECT_LT(table[1].at("bytes_between_hosts"), 1.1 * table[0].at("bytes_between_hosts").get<double>());
}

TEST_F(HostsBenchTest, AHostJoinsAndTheOthersGoOn) {
  require_hosts();
  if (IsSkipped()) return;
  const Finished done = Program(folder_.path(), {"bench", "join", "--mb", "4", "--link", "1gbit", "--sleep", "20",
                                                 "--steps", "4", "--rounds", "1", "--json"})
                            .wait(std::chrono::seconds(300));
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::vector<Json> table = rows(done.out);
  ASSERT_THAT(table, SizeIs(1)) << done.out;
  const Json& row = table[0];
  // It cannot take part before it has the state, and lanes sleep for so long at least.
  EXPECT_GT(row.at("received_mb"), row.at("state_mb").get<double>());
  EXPECT_EQ(row.at("state_mb"), 8.0);
  EXPECT_GE(row.at("usual_ms"), 20.0);
  EXPECT_GE(row.at("after_ms"), 20.0);
  EXPECT_GE(row.at("steps_meanwhile"), 1);
  EXPECT_GT(row.at("takes_part_s"), row.at("state_at_line_rate_s").get<double>());
}

TEST_F(HostsBenchTest, WithoutPythonsTorchSaysHowToGetIt) {
  require_hosts();
  if (IsSkipped()) return;
  const Finished done = bench({"--against", "ddp", "--python", BARE_PYTHON});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.err, AllOf(HasSubstr("python3-torch"), HasSubstr("--python")));
}

TEST_F(HostsBenchTest, WhatCannotBeMeasuredIsRefused) {
  const Finished rate = bench({"--link", "fast"});
  EXPECT_EQ(rate.exit_code, 2);
  EXPECT_THAT(rate.err, AllOf(HasSubstr("\"fast\" is no rate of a link"), HasSubstr("10gbit")));
  const Finished strategy = bench({"--strategies", "parameter_server"});
  EXPECT_EQ(strategy.exit_code, 2);
  EXPECT_THAT(strategy.err, AllOf(HasSubstr("is not measured on several hosts"), HasSubstr("shared_sync")));
  const Finished peer = bench({"--against", "horovod"});
  EXPECT_EQ(peer.exit_code, 2);
  EXPECT_THAT(peer.err, HasSubstr("Peers are: ddp"));
  const Finished slow = bench({"--slow", "2"});
  EXPECT_EQ(slow.exit_code, 2);
  EXPECT_THAT(slow.err, HasSubstr("--slow"));
}

TEST_F(HostsBenchTest, AsAnotherUserSaysThatItNeedsRoot) {
  if (::geteuid() != 0) {
    const Finished done = bench({});
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_THAT(done.err, AllOf(HasSubstr("root"), HasSubstr("iproute2")));
    return;
  }
  const auto program = std::filesystem::absolute(MUSTER_PROGRAM).string();
  const std::string out = (folder_ / "out").string();
  const int code = std::system(
      ("setpriv --reuid=65534 --regid=65534 --clear-groups " + program + " bench step --hosts 2 > " + out + " 2>&1")
          .c_str());
  ASSERT_TRUE(WIFEXITED(code));
  if (WEXITSTATUS(code) >= 126) GTEST_SKIP() << "another user cannot start the program: " << slurp(out);
  EXPECT_EQ(WEXITSTATUS(code), 2);
  EXPECT_THAT(slurp(out), AllOf(HasSubstr("root"), HasSubstr("iproute2")));
}

}  // namespace
}  // namespace muster::testing
