// A job whose record is in an etcd of three members: coordinators that are killed and stopped are replaced by those
// that stand by, and an etcd without a quorum costs nothing but time.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "muster/control/etcd_options.h"
#include "muster/control/job_record.h"
#include "muster/control/job_store.h"
#include "support/etcd.h"
#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using control::JobRecord;
using testing::EtcdCluster;
using testing::eventually;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::slurp;
using testing::train_arguments;

constexpr std::chrono::seconds kLongest{120};

// Few by default; FAULTS asks for MUSTER_TEST_KILLS=30 and MUSTER_TEST_QUORUM_SECONDS=60 now and then.
int setting(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoi(text);
}
int kills() {
  return setting("MUSTER_TEST_KILLS", 3);
}

class EtcdFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::etcd_installed()) GTEST_SKIP() << "etcd-server is not installed";
    // Room for little: one of the tests fills it.
    etcd_.emplace(3, std::vector<std::string>{"--quota-backend-bytes", "8000000"});
    testing::spill(folder_ / "job.toml",
                   testing::stateful_job("led", {fmt::format("job.epochs={}", std::max(60, 30 * kills())),
                                                 "job.ledger=true", "checkpoint.every_steps=20"}));
    slow_.emplace("arena.commit.before_flip=delay=50");  // else it ends before all is done
    ASSERT_TRUE(eventually([&] { return etcd_->control({"endpoint", "health"}).exit_code == 0; }, limit()));
  }
  static Deadline limit() { return Deadline::after(kLongest); }
  std::vector<std::string> store_flags() const { return {"--store=" + etcd_->url(), "--store-lease=2"}; }
  std::unique_ptr<Program> train() {
    auto program = std::make_unique<Program>(folder_.path(), train_arguments(2, store_flags()));
    EXPECT_TRUE(eventually([&] { return program->out().find("\"checkpoint\"") != std::string::npos; }, limit()))
        << program->out() << program->err();
    return program;
  }
  // A folder of its own, in which programs print.
  std::filesystem::path place(const std::string& name) {
    std::filesystem::create_directories(folder_ / name);
    return folder_ / name;
  }
  std::unique_ptr<Program> standby(const std::string& name) {
    std::vector<std::string> words{"coordinator", "--standby", "led", "--runs", "../runs"};
    for (const std::string& flag : store_flags())
      words.push_back(flag);
    auto program = std::make_unique<Program>(place(name), words);
    EXPECT_TRUE(eventually([&] { return program->err().find("coordinates the job") != std::string::npos; }, limit()))
        << program->err();
    return program;
  }
  Finished command(std::vector<std::string> words) {
    words.insert(words.end(), {"--runs", "../runs"});
    return run_program(place("desk"), std::move(words));
  }
  Json status() {
    const Finished result = command({"status", "led", "--json"});
    return result.exit_code == 0 && !result.out.empty() ? rows(result.out).back() : Json::object();
  }
  std::filesystem::path run_folder(const std::string& runs = "runs") const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / runs))
      return entry.path();
    return {};
  }
  // What the etcd says, asked by the test itself.
  JobRecord& record() {
    if (!record_) {
      control::EtcdOptions options = control::etcd_of_run(control::parse_etcd_url(etcd_->url()), run_folder());
      options.timeout = kLongest;
      record_.emplace(std::shared_ptr<control::Store>(control::make_etcd_store(options)));
    }
    return *record_;
  }
  std::uint64_t step() const { return rows(slurp(run_folder() / "metrics.jsonl")).back().at("step"); }
  std::vector<int> workers() {
    std::vector<int> pids;
    const Json now = status();
    if (now.contains("members"))
      for (const Json& member : now.at("members"))
        pids.push_back(member.at("pid"));
    std::sort(pids.begin(), pids.end());
    return pids;
  }
  // Until the leader of that epoch serves; within that the workers are looked for.
  void wait_for_epoch(std::uint64_t epoch) {
    ASSERT_TRUE(eventually(
        [&] {
          const auto lease = record().lease();
          return lease && lease->epoch == epoch && record().is_led() && record().endpoint().has_value();
        },
        limit()));
  }
  // The run ends as one that nobody disturbed.
  void expect_the_same_end(Program& last) {
    slow_.reset();
    const auto longest = kLongest * std::max(1, kills() / 3);  // the job is longer for more kills
    const Finished end = last.wait(longest);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    const Finished calm = Program(folder_.path(), train_arguments(2, {"job.runs=calm"})).wait(longest);
    ASSERT_EQ(calm.exit_code, 0) << calm.err;
    const Json expected = rows(slurp(run_folder("calm") / "metrics.jsonl")).back();
    const Json actual = rows(slurp(run_folder() / "metrics.jsonl")).back();
    for (const char* key : {"event", "step", "weights", "test_loss"})
      EXPECT_EQ(actual.at(key), expected.at(key)) << key;
    const Finished ledger = run_program(folder_.path(), {"ledger", "check", run_folder().string()});
    EXPECT_EQ(ledger.exit_code, 0) << ledger.out << ledger.err;
  }

  testing::TemporaryFolder folder_;
  std::optional<EtcdCluster> etcd_;
  std::optional<testing::Failpoints> slow_;
  std::optional<JobRecord> record_;
};

TEST_F(EtcdFaults, CoordinatorsThatAreKilledAreReplacedAndNoAcknowledgedCommandIsLost) {
  std::unique_ptr<Program> leader = train();
  wait_for_epoch(1);
  ASSERT_TRUE(eventually([&] { return workers().size() == 2; }, limit()));
  const std::vector<int> same = workers();
  std::chrono::duration<double> longest{0};
  for (int round = 0; round < kills(); ++round) {
    std::unique_ptr<Program> next = standby("standby" + std::to_string(round));
    // The value that it has: the bits stay, and each is a change of its own.
    const Finished set = command({"set", "led", "optimizer.lr=0.02"});
    ASSERT_EQ(set.exit_code, 0) << set.err;
    const std::uint64_t at = step();
    leader->signal(SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    leader->wait();
    // Each lead has an epoch of its own: two at a time would be one more than there were kills.
    wait_for_epoch(2 + round);
    longest = std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - killed);
    EXPECT_EQ(record().lease()->holder.pid, next->pid());
    EXPECT_GT(step(), at) << "workers train on";
    EXPECT_EQ(record().changes().size(), static_cast<std::size_t>(round + 1));
    ASSERT_TRUE(eventually([&] { return workers() == same; }, limit())) << next->err();
    leader = std::move(next);
  }
  fmt::print("{} kills; longest time to a new leader that serves: {:.2f} s (lease 2 s)\n", kills(), longest.count());
  record_.reset();
  expect_the_same_end(*leader);
  // The record is in the folder again, for whoever looks when there is no etcd any more.
  etcd_.reset();
  EXPECT_EQ(status().at("state"), "finished");
  EXPECT_EQ(JobRecord(control::open_record_store(run_folder())).changes().size(), static_cast<std::size_t>(kills()));
}

TEST_F(EtcdFaults, ACoordinatorThatStandsStillLosesTheLeadAndIsEnded) {
  std::unique_ptr<Program> leader = train();
  wait_for_epoch(1);
  ASSERT_TRUE(eventually([&] { return workers().size() == 2; }, limit()));
  const std::vector<int> same = workers();
  std::unique_ptr<Program> next = standby("standby");
  leader->signal(SIGSTOP);
  wait_for_epoch(2);
  EXPECT_EQ(leader->wait(kLongest).signal, SIGKILL);
  EXPECT_TRUE(eventually([&] { return workers() == same; }, limit())) << next->err();
  expect_the_same_end(*next);
}

TEST_F(EtcdFaults, WithoutAQuorumTrainingGoesOnAndTheCoordinatorKeepsItsPlace) {
  std::unique_ptr<Program> leader = train();
  wait_for_epoch(1);
  std::unique_ptr<Program> next = standby("standby");
  // First the member that leads the others.
  ASSERT_TRUE(eventually([&] { return etcd_->leader() >= 0; }, limit()));
  const int first = etcd_->leader();
  etcd_->kill(first);
  const Finished set = command({"set", "led", "optimizer.lr=0.02"});
  EXPECT_EQ(set.exit_code, 0) << set.err;
  // Then another one: no quorum, for longer than the lease.
  const int second = (first + 1) % 3;
  etcd_->kill(second);
  ASSERT_TRUE(
      eventually([&] { return status().dump().find("was not heard of for longer") != std::string::npos; }, limit()))
      << leader->err();
  const std::uint64_t at = step();
  ASSERT_TRUE(eventually([&] { return step() > at + 10; }, limit())) << "training goes on";
  std::this_thread::sleep_for(  // sleeps: how long the etcd is to be without a quorum
      std::chrono::seconds(setting("MUSTER_TEST_QUORUM_SECONDS", 0)));
  etcd_->start(first);
  etcd_->start(second);
  wait_for_epoch(1);
  ASSERT_TRUE(eventually(
      [&] {
        return command({"set", "led", "optimizer.lr=0.02"}).exit_code == 0;
      },
      limit()))
      << leader->err();
  EXPECT_EQ(record().lease()->holder.pid, leader->pid()) << next->err();
  EXPECT_GE(record().changes().size(), 2U);
  record_.reset();
  expect_the_same_end(*leader);
  EXPECT_EQ(next->wait(kLongest).exit_code, 0) << next->err();
  EXPECT_THAT(next->err(), HasSubstr("the job has finished"));
}

TEST_F(EtcdFaults, ACompactionAndAFullEtcdCostCommandsAndNothingElse) {
  std::unique_ptr<Program> leader = train();
  wait_for_epoch(1);
  std::unique_ptr<Program> next = standby("standby");
  const auto set = [&] { return command({"set", "led", "optimizer.lr=0.02"}); };
  ASSERT_EQ(set().exit_code, 0);
  const auto revision = [&] {
    const std::string status = etcd_->control({"endpoint", "status", "--write-out", "json"}, 0).out;
    const std::size_t at = status.find("\"revision\":") + 11;
    return status.substr(at, status.find_first_not_of("0123456789", at) - at);
  };
  ASSERT_EQ(etcd_->control({"compact", revision()}).exit_code, 0);
  EXPECT_EQ(set().exit_code, 0);
  // Somebody else fills it.
  testing::spill(folder_ / "much", std::string(700'000, 'x'));
  ASSERT_TRUE(eventually(
      [&] {
        testing::run_command({"sh", "-c",
                              fmt::format("ETCDCTL_API=3 etcdctl --endpoints {} put other < {}", etcd_->address(0),
                                          (folder_ / "much").string())});
        return etcd_->control({"alarm", "list"}).out.find("NOSPACE") != std::string::npos;
      },
      limit()));
  const Finished refused = set();
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("space exceeded"));
  const std::uint64_t at = step();
  ASSERT_TRUE(eventually([&] { return step() > at + 50; }, limit())) << "training goes on";
  // As docs/operations.md says; each member has a file of its own.
  ASSERT_EQ(etcd_->control({"compact", revision()}).exit_code, 0);
  ASSERT_EQ(etcd_->control({"defrag"}).exit_code, 0);
  ASSERT_EQ(etcd_->control({"alarm", "disarm"}).exit_code, 0);
  ASSERT_TRUE(eventually([&] { return set().exit_code == 0; }, limit())) << leader->err();
  EXPECT_EQ(record().lease()->holder.pid, leader->pid()) << next->err();
  EXPECT_EQ(record().lease()->epoch, 1U) << "the lead was kept";
  record_.reset();
  expect_the_same_end(*leader);
  EXPECT_EQ(next->wait(kLongest).exit_code, 0) << next->err();
}

TEST_F(EtcdFaults, WhatMakesNoSenseIsRefused) {
  const auto refused = [&](std::vector<std::string> words, const std::string& why) {
    const Finished result = run_program(place("desk"), std::move(words));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused({"coordinator", "--standby", "led"}, "--store");
  refused({"coordinator", "led", "--store", etcd_->url()}, "--standby");
  refused({"coordinator", "--standby", "nothing", "--wait", "0", "--store", etcd_->url()}, "no run");
  refused({"train", "../job.toml", "--store", "etcd://10.0.0.1:2379"}, "--store-insecure");
  refused({"train", "../job.toml", "--store", "http://127.0.0.1:1"}, "etcd://");
  refused({"train", "../job.toml", "--store", etcd_->url(), "--store-user", "x"}, "--store-password");
  const Finished away = run_program(
      place("desk"), {"train", "../job.toml", "--store", fmt::format("etcd://127.0.0.1:{}", testing::free_port())});
  EXPECT_EQ(away.exit_code, 1);
  EXPECT_THAT(away.err, HasSubstr("etcd does not answer"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "desk/runs")) << "nothing was begun";
}

}  // namespace
}  // namespace muster
