// A job of three hosts whose record is in an etcd with a member on each of them: when the coordinator's host is lost or
// cut off a standby on another one takes over by itself, and who was cut off does nothing on its own.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/etcd.h"
#include "support/eventually.h"
#include "support/hosts.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kLongest{300};

class HostsEtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
    if (!etcd_installed()) GTEST_SKIP() << "etcd-server is not installed";
    hosts_.emplace(3);
    spill((*hosts_)[0].file("/tmp/work/job.toml"),
          stateful_job("far", {"job.epochs=60", "parallel.interface=\"eth0\"", "parallel.host_seconds=2.0"}));
    for (int host = 0; host < 3; ++host)
      start_etcd(host);
    ASSERT_TRUE(eventually(
        [&] {
          return (*hosts_)[0]
                     .run({"env", "ETCDCTL_API=3", "etcdctl", "--endpoints", members(), "endpoint", "health"})
                     .exit_code == 0;
        },
        Deadline::after(kLongest)));
  }
  std::string at(int host, int port) { return fmt::format("{}:{}", (*hosts_)[host].address(), port); }
  std::string address(int host) { return at(host, 7400); }
  std::string members() { return fmt::format("{},{},{}", at(0, 2379), at(1, 2379), at(2, 2379)); }
  void start_etcd(int host) {
    std::string all;
    for (int i = 0; i < 3; ++i)
      all += fmt::format("{}m{}=http://{}", i > 0 ? "," : "", i, at(i, 2380));
    const std::string client = "http://" + at(host, 2379);
    const std::string peer = "http://" + at(host, 2380);
    etcd_.push_back((*hosts_)[host].start({"etcd", "--name", fmt::format("m{}", host), "--data-dir", "/tmp/etcd",
                                           "--listen-client-urls", client, "--advertise-client-urls", client,
                                           "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                                           "--initial-cluster", all, "--logger", "zap"}));
  }
  // Each commit takes a while, so that there is time for something to happen.
  static std::vector<std::string> slowly() { return {"MUSTER_FAILPOINTS=arena.commit.before_arrival=delay=25"}; }
  std::vector<std::string> with_store(std::vector<std::string> words) {
    words.insert(words.begin(), MUSTER_PROGRAM);
    words.insert(words.end(),
                 {"--insecure", "--store", "etcd://" + members(), "--store-insecure", "--store-lease", "3"});
    return words;
  }
  HostProgram train() {
    std::vector<std::string> words = train_arguments("1", {"parallel.hosts=3"});
    words.insert(words.end(), {"--listen", address(0)});
    return (*hosts_)[0].start(with_store(words), slowly());
  }
  HostProgram agent(int host) {
    return (*hosts_)[host].start({MUSTER_PROGRAM, "agent", "--join", address(0) + "," + address(1), "--insecure"},
                                 slowly());
  }
  // One that stands by itself.
  HostProgram standing_agent(int host) {
    return (*hosts_)[host].start(
        with_store({"agent", "--join", address(0) + "," + address(1) + "," + address(2), "--listen", address(host)}),
        slowly());
  }
  HostProgram standby(int host) {
    HostProgram program =
        (*hosts_)[host].start(with_store({"coordinator", "--standby", "far", "--listen", address(host)}), slowly());
    EXPECT_TRUE(eventually([&] { return program.err().find("coordinates the job") != std::string::npos; },
                           Deadline::after(kLongest)))
        << program.err();
    return program;
  }
  Json status(int host) {
    const Finished result = (*hosts_)[host].run({MUSTER_PROGRAM, "status", "far", "--json"});
    return result.exit_code == 0 && !result.out.empty() ? rows(result.out).back() : Json();
  }
  // Once a coordinator of that term has so many hosts that go on.
  void wait_for(int on_host, std::size_t hosts, std::uint64_t term) {
    Json now;
    std::optional<std::uint64_t> before;
    ASSERT_TRUE(eventually(
        [&] {
          now = status(on_host);
          if (!now.is_object() || !now.contains("hosts") || now["hosts"].size() != hosts) return false;
          for (const Json& host : now["hosts"])
            if (host["workers"] != 1 || host["number"] < (term - 1) * 100'000) return false;
          if (!before) before = now["step"].get<std::uint64_t>();
          return now["step"] > *before + 2;
        },
        Deadline::after(kLongest)))
        << now;
  }
  // How the job has ended by the files of that host; null: it has not there.
  Json end_of(int host) {
    std::error_code none;
    for (const auto& run : std::filesystem::directory_iterator((*hosts_)[host].file("/tmp/work/runs"), none)) {
      if (!std::filesystem::exists(run.path() / "metrics.jsonl")) continue;
      const Json last = rows(slurp(run.path() / "metrics.jsonl")).back();
      if (last.at("event") == "finished") return last;
    }
    return {};
  }
  std::string alone() {
    const Finished end = (*hosts_)[2].run({MUSTER_PROGRAM, "train", "job.toml", "--json", "--set", "parallel.hosts=1",
                                           "--set", "parallel.workers=1", "--set", "job.runs=undisturbed"},
                                          kLongest);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return rows(end.out).back().at("weights");
  }
  void expect_end(HostProgram& next, HostProgram& third) {
    const Finished end = next.wait(kLongest);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_EQ(third.wait(kLongest).exit_code, 0) << third.err();
    spill((*hosts_)[2].file("/tmp/work/job.toml"), slurp((*hosts_)[0].file("/tmp/work/job.toml")));
    const Json made = end_of(1).is_null() ? end_of(2) : end_of(1);
    ASSERT_FALSE(made.is_null());
    EXPECT_EQ(made.at("weights"), alone());
  }

  std::optional<Hosts> hosts_;
  std::vector<HostProgram> etcd_;
};

TEST_F(HostsEtcdTest, WhenTheCoordinatorsHostIsLostAnotherOneTakesOverByItself) {
  HostProgram first = train();
  HostProgram second = agent(1);
  HostProgram third = agent(2);
  wait_for(1, 3, 1);
  HostProgram next = standby(1);
  (*hosts_)[0].kill_all();  // with its member of the etcd
  wait_for(2, 2, 2);
  expect_end(next, third);
}

TEST_F(HostsEtcdTest, AnAgentTakesOverWithItsOwnWorkersAndProcess) {
  HostProgram first = train();
  HostProgram second = standing_agent(1);
  HostProgram third = standing_agent(2);
  wait_for(1, 3, 1);
  for (HostProgram* agent : {&second, &third})
    ASSERT_TRUE(eventually([&] { return agent->err().find("coordinates the job") != std::string::npos; },
                           Deadline::after(kLongest)))
        << agent->err();
  const Json before = status(1);
  (*hosts_)[0].kill_all();  // with its member of the etcd
  wait_for(1, 2, 2);
  const bool of_second = second.err().find("this agent does from now on") != std::string::npos;
  const Json now = status(of_second ? 1 : 2);
  if (of_second) {
    EXPECT_EQ(now["members"][0]["pid"], before["members"][0]["pid"]) << "its worker trains on";
  }
  EXPECT_EQ(now["coordinator"]["host"], of_second ? "host-1" : "host-2");
  expect_end(of_second ? second : third, of_second ? third : second);
}

TEST_F(HostsEtcdTest, ACoordinatorThatIsCutOffDoesNotTrainOnAloneAndEndsOnceItKnows) {
  HostProgram first = train();
  HostProgram second = agent(1);
  HostProgram third = agent(2);
  wait_for(1, 3, 1);
  HostProgram next = standby(1);
  hosts_->cut(0);
  wait_for(2, 2, 2);
  // By now it has missed the others for longer than parallel.host_seconds, and its lease.
  const std::uint64_t at = status(0).value("step", std::uint64_t{0});
  const std::uint64_t there = status(2)["step"].get<std::uint64_t>();
  ASSERT_TRUE(
      eventually([&] { return status(2)["step"].get<std::uint64_t>() > there + 20; }, Deadline::after(kLongest)));
  EXPECT_EQ(status(0).value("step", std::uint64_t{0}), at) << "it has gone on alone";
  hosts_->heal();
  const Finished overtaken = first.wait(kLongest);
  EXPECT_EQ(overtaken.exit_code, 1) << overtaken.err;
  EXPECT_THAT(overtaken.err, HasSubstr("taken over"));
  expect_end(next, third);
}

}  // namespace
}  // namespace muster::testing
