// Parameter servers on hosts that share nothing but a network, with certificates between them. Where lanes are taken
// together (bsp) the weights are those of shared_sync with one worker on one host, also when a host is lost that has
// servers: what they held is on another one. Where nobody else has it the job ends, and says which host was lost.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "hosts/far_job.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HostsServers : public FarJob {
 protected:
  HostsServers()
      : FarJob({"parallel.host_seconds=5", "parallel.strategy=\"parameter_server\"", "parallel.chunk_kb=64",
                "parallel.liveness_seconds=60"},
               "parameter_server.push.before=delay=20") {}

  HostProgram train(int hosts, int workers) { return FarJob::train(std::to_string(hosts), std::to_string(workers)); }
  // Once so many hosts train, and all servers serve, and have committed `steps` steps since this was seen first.
  void wait_for(std::size_t hosts, int servers, const HostProgram& train, std::uint64_t steps = 2) {
    wait_until(hosts, train, steps, [&](const Json& status) { return status.at("servers").at("serving") == servers; });
  }
  // What one worker makes of it with shared_sync, on the first host alone, in so many steps; 0: in all.
  Json undisturbed(std::uint64_t steps = 0) {
    std::vector<std::string> words{MUSTER_PROGRAM, "train", "job.toml", "--json"};
    // Keys that belong to the servers are left out.
    std::vector<std::string> assignments{"parallel.hosts=1", "parallel.workers=1", "job.runs=undisturbed",
                                         "job.ledger=false"};
    if (steps > 0) assignments.push_back(fmt::format("job.steps={}", steps));
    for (const std::string& assignment : assignments)
      words.insert(words.end(), {"--set", assignment});
    const std::string job = slurp((*hosts_)[0].file("/tmp/work/job.toml"));
    spill((*hosts_)[0].file("/tmp/work/alone.toml"), without_servers(job));
    words[2] = "alone.toml";
    const Finished alone = (*hosts_)[0].run(words, kLongest);
    EXPECT_EQ(alone.exit_code, 0) << alone.err;
    return alone.exit_code == 0 ? rows(alone.out).back() : Json();
  }
  static std::string without_servers(const std::string& job) {
    std::string text;
    std::istringstream lines(job);
    for (std::string line; std::getline(lines, line);) {
      const bool of_servers = std::ranges::any_of(
          std::vector<std::string>{"strategy", "servers", "copies", "chunk_kb", "consistency", "staleness"},
          [&](const std::string& key) { return line.starts_with(key + " "); });
      if (!of_servers) text += line + "\n";
    }
    return text;
  }
  // Stops the job. It has the state of one worker that has done as many steps alone, and its ledger is exact.
  void expect_the_end(HostProgram& train) {
    stop_and_compare(train, [&](std::uint64_t steps) { return undisturbed(steps); });
    expect_exact_ledger();
  }
  // What a host's workers have loaded is on its own disk: the parts of all hosts are one ledger.
  void expect_exact_ledger() {
    const std::filesystem::path runs = std::filesystem::path(kWork) / "runs";
    for (int host = 1; host < hosts_->size(); ++host) {
      std::error_code none;
      for (const auto& run : std::filesystem::directory_iterator((*hosts_)[host].file(runs), none))
        if (std::filesystem::exists(run.path() / "ledger"))
          std::filesystem::copy(run.path() / "ledger", (*hosts_)[0].file(runs / run.path().filename() / "ledger"),
                                std::filesystem::copy_options::recursive);
    }
    const Finished ledger = (*hosts_)[0].run({MUSTER_PROGRAM, "ledger", "check", "far"});
    EXPECT_EQ(ledger.exit_code, 0) << ledger.out << ledger.err;
  }
};

TEST_F(HostsServers, BspOnTwoHostsGivesTheBitsOfOneWorker) {
  prepare(2, {"parallel.servers=2", "parallel.copies=2"});
  const Json expected = undisturbed();
  HostProgram first = train(2, 2);
  HostProgram& second = agent(1);
  const Finished led = first.wait(kLongest);
  expect_same_end(led, expected, "two hosts of two workers and a server");
  const Finished other = second.wait(kLongest);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_GT((*hosts_)[1].sent_bytes(), 0U);
  EXPECT_THAT(told(first), Not(HasSubstr("audit: refused")));
  expect_exact_ledger();
}

TEST_F(HostsServers, SspTrainsOnTwoHostsAndEverySampleCountsOnce) {
  prepare(2, {"parallel.servers=2", "parallel.consistency=\"ssp\"", "parallel.staleness=2"});
  trust_ = {"--insecure"};
  HostProgram first = train(2, 1);
  HostProgram& second = agent(1);
  const Finished led = first.wait(kLongest);
  ASSERT_EQ(led.exit_code, 0) << told(first);
  EXPECT_EQ(rows(led.out).back().at("event"), "finished") << led.out;
  EXPECT_EQ(second.wait(kLongest).exit_code, 0) << told(first);
  expect_exact_ledger();
}

// Its servers are started on the host that is left; when another one comes, one of them moves there.
TEST_F(HostsServers, AHostWithServersThatIsLostLosesNothing) {
  prepare(2, {"parallel.servers=2", "parallel.copies=2", "job.epochs=1000000", "optimizer.schedule=\"constant\""});
  HostProgram first = train(2, 1);
  agent(1);
  wait_for(2, 2, first);
  hosts_->cut(1);  // as one that loses its power: nobody says goodbye
  wait_for(1, 2, first);
  (*hosts_)[1].kill_all();
  hosts_->heal();
  agent(1);
  wait_for(2, 2, first, 5);
  expect_the_end(first);
}

TEST_F(HostsServers, AHostThatAloneHadPartsOfTheModelEndsTheJobWithItsName) {
  prepare(2, {"parallel.servers=2", "job.epochs=1000000", "optimizer.schedule=\"constant\""});
  HostProgram first = train(2, 1);
  agent(1);
  wait_for(2, 2, first);
  (*hosts_)[1].kill_all();
  const Finished led = first.wait(kLongest);
  EXPECT_EQ(led.exit_code, 1) << told(first);
  EXPECT_THAT(led.err,
              AllOf(HasSubstr("lost: host host-1 ("), HasSubstr("parallel.copies = 2"), HasSubstr("--resume")));
}

}  // namespace
}  // namespace muster::testing
