// Data of jobs of several hosts, each with a disk of its own: hosts whose files differ are told apart, and hosts that
// have none get it from those that have, also when one of these is lost. The bits are those of one worker on one host
// with the data beside it, and every sample is used exactly once.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.h"
#include "support/hosts.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kPort = "7400";
constexpr std::chrono::seconds kLongest{300};
constexpr const char* kShards = "/tmp/work/packed";

class HostsDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
  }

  // `count` hosts; the first has the job and the shards, and has made what one worker makes of them. `shape` of
  // samples.
  void prepare(int count, std::vector<std::string> more, const std::string& shape = "[1, 12, 12]") {
    hosts_.emplace(count);
    shape_ = shape;
    Host& first = (*hosts_)[0];
    pack(0, 1);
    more.insert(more.end(), {"parallel.interface=\"eth0\"", "parallel.host_seconds=2.0", "job.ledger=true",
                             "data.source=\"packed\"", "data.shape=", "data.samples=", "data.test_samples=",
                             fmt::format("data.path=\"{}\"", kShards)});
    spill(first.file("/tmp/work/job.toml"), stateful_job("far", more));
    expected_ = alone({});
  }
  // What one worker on the first host makes of it.
  Json alone(const std::vector<std::string>& more) {
    std::vector<std::string> keys{"parallel.hosts=1", "job.runs=undisturbed", "job.ledger=false"};
    keys.insert(keys.end(), more.begin(), more.end());
    std::vector<std::string> words{MUSTER_PROGRAM};
    const std::vector<std::string> arguments = train_arguments("1", keys);
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Finished end = (*hosts_)[0].run(words, kLongest);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return end.exit_code == 0 ? rows(end.out).back() : Json();
  }
  // The same seed gives the same shards.
  void pack(int host, int seed) {
    Host& on = (*hosts_)[host];
    spill(on.file("/tmp/work/source.toml"),
          stateful_job("source", {fmt::format("job.seed={}", seed), "data.shape=" + shape_}));
    const Finished packed = on.run({MUSTER_PROGRAM, "data", "pack", "source.toml", kShards, "--shards", "3"});
    ASSERT_EQ(packed.exit_code, 0) << packed.err;
  }
  std::string address() { return (*hosts_)[0].address() + ":" + kPort; }
  // Each commit takes a while, so that there is time for something to happen.
  static std::vector<std::string> slowly() { return {"MUSTER_FAILPOINTS=arena.commit.before_arrival=delay=25"}; }
  HostProgram train(const std::string& hosts, std::vector<std::string> more = {}) {
    std::vector<std::string> words{MUSTER_PROGRAM};
    more.push_back("parallel.hosts=" + hosts);
    const std::vector<std::string> arguments = train_arguments("1", more);
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--listen", address()});
    words.insert(words.end(), trust_.begin(), trust_.end());
    return (*hosts_)[0].start(words, slowly());
  }
  HostProgram agent(int host) {
    std::vector<std::string> words{MUSTER_PROGRAM, "agent", "--join", address()};
    words.insert(words.end(), trust_.begin(), trust_.end());
    return (*hosts_)[host].start(words, slowly());
  }
  // Hosts know each other by these from now on.
  void give_certificates() {
    Host& first = (*hosts_)[0];
    const Finished made = first.run({MUSTER_PROGRAM, "certs", "create", "certs"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    for (int host = 0; host < hosts_->size(); ++host)
      std::filesystem::copy(first.file(host == 0 ? "/tmp/work/certs/coordinator" : "/tmp/work/certs/agent"),
                            (*hosts_)[host].file("/tmp/work/own"));
    trust_ = {"--certs", "own"};
  }
  // The pieces that a host keeps now.
  std::set<std::string> cached(int host) {
    std::set<std::string> found;
    std::error_code code;  // pieces go at any moment
    std::filesystem::recursive_directory_iterator entry((*hosts_)[host].file("/tmp/work/muster-cache"), code);
    for (; !code && entry != std::filesystem::recursive_directory_iterator(); entry.increment(code)) {
      std::error_code gone;
      if (entry->is_regular_file(gone)) found.insert(entry->path().string());
    }
    return found;
  }
  Json status() {
    const Finished result = (*hosts_)[0].run({MUSTER_PROGRAM, "status", "far", "--json"});
    return result.exit_code == 0 ? rows(result.out).back() : Json();
  }
  // Once so many hosts train and the step is at least `step`.
  void wait_for(std::size_t hosts, std::uint64_t step, const HostProgram& train) {
    Json now;
    const auto look = [&] {
      now = status();
      return now.is_object() && now.at("step") >= step && now.contains("hosts") && now.at("hosts").size() == hosts;
    };
    ASSERT_TRUE(eventually(look, Deadline::after(kLongest))) << now << "\n" << train.out() << train.err();
  }
  void expect_the_end(HostProgram& train) {
    expect_same_end(train.wait(kLongest), expected_, "several hosts");
    // Every host has what the others have recorded, those that were lost, too.
    const Finished ledger = (*hosts_)[0].run({MUSTER_PROGRAM, "ledger", "check", "far"});
    EXPECT_EQ(ledger.exit_code, 0) << ledger.out << ledger.err;
  }

  std::optional<Hosts> hosts_;
  std::string shape_;
  std::vector<std::string> trust_{"--insecure"};
  Json expected_;
};

TEST_F(HostsDataTest, AHostThatGivesDataMayBeLost) {
  // 25 MB, of which a host may keep 16 MiB: it fetches until the end.
  prepare(3, {"data.access=\"fetch\"", "data.cache_mb=16", "model.name=\"mlp\"", "model.hidden=[16]", "job.epochs=40"},
          "[3, 64, 64]");
  pack(1, 1);
  HostProgram first = train("3");
  HostProgram second = agent(1);
  HostProgram third = agent(2);
  wait_for(3, 2, first);
  EXPECT_THAT(second.err(), HasSubstr("giving data"));
  EXPECT_THAT(third.err(), HasSubstr("fetching data from host"));
  EXPECT_FALSE(std::filesystem::exists((*hosts_)[2].file(kShards)));
  (*hosts_)[1].kill_all();
  const std::set<std::string> before = cached(2);
  expect_the_end(first);
  const std::set<std::string> after = cached(2);
  EXPECT_FALSE(after.empty());
  EXPECT_FALSE(std::ranges::includes(before, after)) << "nothing was fetched after the loss";
  const Finished other = third.wait();
  EXPECT_EQ(other.exit_code, 0) << other.err;
}

TEST_F(HostsDataTest, TheFirstHostMayBeTheOneWithoutData) {
  prepare(2, {"data.access=\"fetch\""});
  pack(1, 1);
  std::filesystem::remove_all((*hosts_)[0].file(kShards));
  HostProgram first = train("2");
  HostProgram second = agent(1);
  expect_the_end(first);
  EXPECT_EQ(second.wait().exit_code, 0) << second.err();
}

// Only the second host has the shards, and an agent's certificate. When all have their part it is lost, and nothing of
// the data with it; a run that is resumed later needs it no more.
TEST_F(HostsDataTest, WithTwoCopiesTheLossOfTheOnlyHostThatHadTheDataLosesNone) {
  prepare(3, {"data.access=\"copy\"", "data.copies=2", "data.cache_mb=16", "data.placement=\"local\"",
              "data.partition=\"random\"", "job.epochs=1000000", "job.steps=400", "optimizer.schedule=\"constant\""});
  const Json longer = alone({"job.steps=440"});
  give_certificates();
  pack(1, 1);
  std::filesystem::remove_all((*hosts_)[0].file(kShards));
  HostProgram first = train("\"2:3\"");
  HostProgram second = agent(1);
  HostProgram third = agent(2);
  const auto all_have = [&] { return first.err().find("all 3 hosts have their part") != std::string::npos; };
  ASSERT_TRUE(eventually(all_have, Deadline::after(kLongest))) << first.err() << second.err() << third.err();
  wait_for(3, 2, first);
  (*hosts_)[1].kill_all();
  expect_the_end(first);
  EXPECT_EQ(third.wait().exit_code, 0) << third.err();
  EXPECT_THAT(first.err(), HasSubstr("2 copies of each of"));
  EXPECT_FALSE(cached(0).empty());
  for (const int host : {0, 2})
    EXPECT_FALSE(std::filesystem::exists((*hosts_)[host].file(kShards)));
  HostProgram again = train("2", {"--resume", "job.steps=440"});
  HostProgram other = agent(2);
  expect_same_end(again.wait(kLongest), longer, "resumed without the host that had the data");
  EXPECT_EQ(other.wait().exit_code, 0) << other.err();
}

TEST_F(HostsDataTest, HostsWithDifferentDataDoNotBegin) {
  prepare(2, {});
  pack(1, 2);
  HostProgram first = train("2");
  HostProgram second = agent(1);
  const Finished end = first.wait(kLongest);
  EXPECT_EQ(end.exit_code, 2) << end.err;
  EXPECT_THAT(end.err, AllOf(HasSubstr("the hosts do not read the same: data.path"), HasSubstr("(host-0)"),
                             HasSubstr("(host-1)"), HasSubstr(kShards)));
  // Whoever looked second has seen it; the other one's job has failed.
  const Finished other = second.wait();
  EXPECT_THAT(other.exit_code, AnyOf(1, 2)) << other.err;
}

}  // namespace
}  // namespace muster::testing
