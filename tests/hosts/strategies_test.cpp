// Strategies with fixed workers on hosts that share nothing but a network: what they send each other goes through
// shared memory on a host and over the network between hosts. The bits are those of one host with as many workers, and
// more workers on a host send no more. A host that is lost ends the job with its reason.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/eventually.h"
#include "support/hosts.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kPort = "7400";
constexpr std::chrono::seconds kLongest{300};

const std::vector<std::string> kAllReduce{"parallel.strategy=\"all_reduce\""};
const std::vector<std::string> kLocalSgd{"parallel.strategy=\"local_sgd\"", "parallel.period=3",
                                         "parallel.outer_momentum=0.5", "parallel.outer_lr=0.7"};

class HostsStrategies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
  }

  // `count` hosts, of which the first has the job.
  void prepare(int count, std::vector<std::string> keys, const std::vector<std::string>& more = {}) {
    keys.insert(keys.end(), {"parallel.interface=\"eth0\"", "parallel.host_seconds=60", "checkpoint.every_steps=4"});
    keys.insert(keys.end(), more.begin(), more.end());
    hosts_.emplace(count);
    spill((*hosts_)[0].file("/tmp/work/job.toml"), stateful_job("fixed", keys));
  }
  std::string address() { return (*hosts_)[0].address() + ":" + kPort; }
  // What the first host makes of it alone.
  Json on_one_host(int workers) {
    std::vector<std::string> words{MUSTER_PROGRAM};
    for (const std::string& word : train_arguments(workers, {"job.runs=alone"}))
      words.push_back(word);
    const Finished alone = (*hosts_)[0].run(words, kLongest);
    EXPECT_EQ(alone.exit_code, 0) << alone.err;
    return alone.exit_code == 0 ? rows(alone.out).back() : Json();
  }
  HostProgram train(int hosts, int workers, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{MUSTER_PROGRAM};
    for (const std::string& word :
         train_arguments(workers, {"parallel.hosts=" + std::to_string(hosts), "parallel.liveness_seconds=60"}))
      words.push_back(word);
    words.insert(words.end(), {"--listen", address(), "--insecure"});
    words.insert(words.end(), more.begin(), more.end());
    return (*hosts_)[0].start(words);
  }
  HostProgram agent(int host, const std::vector<std::string>& environment = {}) {
    return (*hosts_)[host].start({MUSTER_PROGRAM, "agent", "--join", address(), "--insecure"}, environment);
  }
  // Trains to the end on two hosts; bytes that both have sent meanwhile.
  std::uint64_t trained_on_two(int workers, const Json& expected) {
    const auto sent = [&] { return (*hosts_)[0].sent_bytes() + (*hosts_)[1].sent_bytes(); };
    const std::uint64_t before = sent();
    HostProgram first = train(2, workers);
    HostProgram second = agent(1);
    expect_same_end(first.wait(kLongest), expected, std::to_string(workers) + " workers on each of two hosts");
    const Finished other = second.wait(kLongest);
    EXPECT_EQ(other.exit_code, 0) << other.err;
    return sent() - before;
  }
  // Once the first host has a checkpoint.
  void wait_for_a_checkpoint(const HostProgram& first) {
    EXPECT_TRUE(
        eventually([&] { return first.out().find("\"checkpoint\"") != std::string::npos; }, Deadline::after(kLongest)))
        << first.out() << first.err();
  }

  std::optional<Hosts> hosts_;
};

TEST_F(HostsStrategies, AllReduceGivesTheBitsOfOneHostAndMoreWorkersOnAHostSendNoMore) {
  // Large enough that what the agents tell their coordinator does not count: 3 MB of gradient a step.
  prepare(2, kAllReduce, {"data.shape=[1, 28, 28]", "model.name=\"mlp\"", "model.hidden=[800]"});
  const Json two = on_one_host(2);
  const Json four = on_one_host(4);
  EXPECT_EQ(two.at("weights"), four.at("weights")) << "lanes by worker are a power of two either way";
  const std::uint64_t of_one = trained_on_two(1, two);
  const std::uint64_t of_two = trained_on_two(2, four);
  RecordProperty("bytes_of_two_hosts_of_one_worker", std::to_string(of_one));
  RecordProperty("bytes_of_two_hosts_of_two_workers", std::to_string(of_two));
  EXPECT_GT(of_one, std::uint64_t{16} * 2 * 2'500'000) << "each host sends its half of 16 steps, and gets it back";
  EXPECT_LT(static_cast<double>(of_two), 1.05 * static_cast<double>(of_one));
}

TEST_F(HostsStrategies, LocalSgdGivesTheBitsOfOneHostAndMoreWorkersOnAHostSendNoMore) {
  prepare(2, kLocalSgd,
          {"data.shape=[1, 28, 28]", "model.name=\"mlp\"", "model.hidden=[800]", "checkpoint.every_steps=1000000"});
  const std::uint64_t of_one = trained_on_two(1, on_one_host(2));
  const std::uint64_t of_two = trained_on_two(2, on_one_host(4));
  RecordProperty("bytes_of_two_hosts_of_one_worker", std::to_string(of_one));
  RecordProperty("bytes_of_two_hosts_of_two_workers", std::to_string(of_two));
  EXPECT_LT(static_cast<double>(of_two), 1.05 * static_cast<double>(of_one));
}

TEST_F(HostsStrategies, AProgramOfAUserGivesTheBitsOfOneHost) {
  hosts_.emplace(2);
  const auto checkpoints = [&](const std::string& folder) {
    const std::filesystem::path all = (*hosts_)[0].file(std::filesystem::path("/tmp/work") / folder);
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(all))
      if (entry.is_directory()) found[entry.path().filename()] = slurp(entry.path() / "model.safetensors");
    return found;
  };
  const Finished alone = (*hosts_)[0].run({MUSTER_PROGRAM, "run", "-n", "1", EXAMPLE_OWN_MODEL}, kLongest);
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const auto expected = checkpoints("spirals");
  ASSERT_FALSE(expected.empty());
  std::filesystem::remove_all((*hosts_)[0].file("/tmp/work/spirals"));
  HostProgram first =
      (*hosts_)[0].start({MUSTER_PROGRAM, "run", "-n", "1", "--host-seconds", "60", "--liveness", "60", "--listen",
                          address(), "--interface", "eth0", "--insecure", EXAMPLE_OWN_MODEL});
  HostProgram second = agent(1);
  const Finished led = first.wait(kLongest);
  EXPECT_EQ(led.exit_code, 0) << led.err;
  EXPECT_EQ(led.out, alone.out);
  const Finished other = second.wait(kLongest);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(checkpoints("spirals"), expected);
  EXPECT_GT((*hosts_)[1].sent_bytes(), 0U);
}

TEST_F(HostsStrategies, AHostThatIsCutOffEndsTheJobWithTheReasonAndResumeGoesOn) {
  prepare(3, kAllReduce, {"job.lanes=3", "job.epochs=4", "parallel.host_seconds=10"});
  const Json expected = on_one_host(3);
  const std::vector<std::string> slowly{"MUSTER_FAILPOINTS=replica.commit.before=delay=50"};
  {
    HostProgram first = train(3, 1);
    HostProgram second = agent(1, slowly);
    HostProgram third = agent(2);
    wait_for_a_checkpoint(first);
    hosts_->cut(1);
    const Finished led = first.wait(kLongest);
    EXPECT_EQ(led.exit_code, 1) << led.err;
    EXPECT_THAT(led.err,
                AllOf(HasSubstr("host host-1 ("), HasSubstr("was not heard of for"),
                      HasSubstr("the job ends, because its workers cannot be replaced"), HasSubstr("--resume")));
    const Finished other = third.wait(kLongest);
    EXPECT_EQ(other.exit_code, 1) << other.err;
    EXPECT_THAT(other.err, AllOf(HasSubstr("the job has failed"), HasSubstr("host host-1 (")));
    (*hosts_)[1].kill_all();
    hosts_->heal();
  }
  HostProgram first = train(3, 1, {"--resume"});
  HostProgram second = agent(1);
  HostProgram third = agent(2);
  const Finished resumed = first.wait(kLongest);
  expect_same_end(resumed, expected, "resumed");
  EXPECT_GE(rows(resumed.out).front().at("first_step"), 4);
}

}  // namespace
}  // namespace muster::testing
