// The coordinator of a job is killed: its workers go on, another process takes over, and the result is the same.
#include <signal.h>

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::slurp;
using testing::train_arguments;
using testing::wait_until_printed;

class Coordinator : public ::testing::Test {
 protected:
  Coordinator() {
    testing::spill(folder_ / "job.toml", testing::stateful_job("headless", {"job.epochs=40", "job.ledger=true",
                                                                            "checkpoint.every_steps=20"}));
  }

  // The last row of the metrics of the only run there.
  Json last_metric(const std::string& runs = "runs") const { return metrics(runs).back(); }
  std::vector<Json> metrics(const std::string& runs = "runs") const {
    return rows(slurp(run_folder(runs) / "metrics.jsonl"));
  }
  std::filesystem::path run_folder(const std::string& runs = "runs") const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / runs))
      return entry.path();
    return {};
  }
  // Once there is a record that says who trains: the workers may be faster than their coordinator.
  Json status(const std::string& runs = "runs") const {
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    for (;;) {
      const Finished result = run_program(folder_ / "other", {"status", run_folder(runs).string(), "--json"});
      if (result.exit_code == 0 && !rows(result.out).front().at("members").empty()) return rows(result.out).front();
      if (deadline.passed()) throw std::runtime_error("nobody says how the job stands: " + result.out + result.err);
    }
  }
  // Until `done` of the status; what that was.
  Json wait_for(const std::function<bool(const Json&)>& done, const std::string& runs = "runs") const {
    const Deadline deadline = Deadline::after(std::chrono::seconds(90));
    Json now;
    do {
      now = status(runs);
      if (deadline.passed()) throw std::runtime_error("it did not come: " + now.dump());
    } while (!done(now));
    return now;
  }
  static void wait_until_it_trains(const Program& program) { wait_until_printed(program, "\"checkpoint\""); }
  // Until so many more steps are committed.
  void wait_for_steps(std::uint64_t more) const {
    const auto step = [](const Json& now) { return now.at("step").get<std::uint64_t>(); };
    const std::uint64_t goal = step(status()) + more;
    wait_for([&](const Json& now) { return step(now) >= goal; });
  }
  static void wait_for_deaths(const std::vector<ProcessId>& processes, std::chrono::seconds limit) {
    const Deadline deadline = Deadline::after(limit);
    for (const ProcessId& process : processes)
      ASSERT_TRUE(testing::eventually([&] { return state_of(process) == ProcessState::kGone; }, deadline));
  }
  static std::vector<ProcessId> members(const Json& status) {
    std::vector<ProcessId> all;
    for (const Json& member : status.at("members"))
      all.push_back(process_of(member.at("pid").get<int>()));
    return all;
  }
  static void kill_and_wait(Program& program) {
    program.signal(SIGKILL);
    program.wait();
  }
  bool is_begun() const {
    std::error_code none;
    return std::filesystem::exists(folder_ / "runs", none) && !std::filesystem::is_empty(folder_ / "runs", none);
  }
  void expect_nothing_left() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path()))
      EXPECT_EQ(entry.path().filename().string().find("muster-job-"), std::string::npos) << entry.path();
  }
  void SetUp() override { std::filesystem::create_directory(folder_ / "other"); }

  testing::TemporaryFolder folder_;
};

TEST_F(Coordinator, WorkersGoOnWithoutItAndAnotherOneTakesOver) {
  std::optional<testing::Failpoints> slow("arena.commit.before_flip=delay=20");  // else it ends before all is done
  Program program(folder_.path(), train_arguments("1:2"));
  wait_until_it_trains(program);
  const Json before = status();
  kill_and_wait(program);
  for (const ProcessId& worker : members(before))
    EXPECT_EQ(state_of(worker), ProcessState::kRunning);

  Program second(folder_ / "other", {"attach", run_folder().string()});
  wait_for([](const Json& now) { return now.at("coordinator").at("live") && now.at("members").size() == 2; });
  EXPECT_EQ(members(status()), members(before)) << "the same processes";
  kill_and_wait(second);

  // A loss without a coordinator is settled by those who are left; the next coordinator replaces it.
  ::kill(members(before).front().pid, SIGKILL);
  const Finished third = run_program(folder_.path(), train_arguments("1:2", {"--resume"}));
  slow.reset();
  EXPECT_EQ(third.exit_code, 0) << third.err;
  EXPECT_THAT(third.err, HasSubstr("took over headless"));

  const Finished undisturbed = run_program(folder_.path(), train_arguments(2, {"job.runs=calm"}));
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  const Json expected = last_metric("calm");
  const Json actual = last_metric();
  for (const char* key : {"event", "step", "weights", "test_loss", "best_step"})
    EXPECT_EQ(actual.at(key), expected.at(key)) << key;
  const Finished ledger = run_program(folder_.path(), {"ledger", "check", run_folder().string()});
  EXPECT_EQ(ledger.exit_code, 0) << ledger.out << ledger.err;
  expect_nothing_left();
}

std::vector<ProcessId> servers_started_by(pid_t parent) {
  std::vector<ProcessId> found;
  for (const pid_t child : testing::children_of(parent)) {
    std::string words;
    std::getline(std::ifstream(fmt::format("/proc/{}/cmdline", child)), words);
    if (words.find(std::string("\0server", 7)) != std::string::npos) found.push_back(process_of(child));
  }
  return found;
}

// With servers of their own, and with workers that serve.
class CoordinatorOfServers : public Coordinator, public ::testing::WithParamInterface<int> {
 protected:
  std::vector<std::string> served(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"parallel.strategy=parameter_server", fmt::format("parallel.servers={}", GetParam()),
                             "parallel.copies=2"});
    return train_arguments("2:2", more);
  }
};

TEST_P(CoordinatorOfServers, ServersGoOnWithoutItAndAreReplacedByTheNextOne) {
  std::optional<testing::Failpoints> slow("parameter_server.push.before=delay=20");  // else it ends before all is done
  Program program(folder_.path(), served());
  wait_until_it_trains(program);
  const std::vector<ProcessId> servers = servers_started_by(program.pid());
  EXPECT_EQ(servers.size(), static_cast<std::size_t>(GetParam()));
  const Json before = status();
  kill_and_wait(program);
  for (const ProcessId& server : servers)
    EXPECT_EQ(state_of(server), ProcessState::kRunning);

  // Losses under the next one are made good, and again under the one after it.
  std::vector<ProcessId> victims = servers.empty() ? members(before) : servers;
  for (int round = 0; round < 2; ++round) {
    Program next(folder_ / "other", {"attach", run_folder().string()});
    wait_for([](const Json& now) { return now.at("coordinator").at("live") && now.at("members").size() == 2; });
    ::kill(victims.back().pid, SIGKILL);
    const auto replaced = [&](const Json& now) {
      if (!servers.empty()) return servers_started_by(next.pid()).size() == 1;
      const std::vector<ProcessId> all = members(now);
      return all.size() == 2 && std::find(all.begin(), all.end(), victims.back()) == all.end();
    };
    wait_for(replaced);
    victims = servers.empty() ? members(status()) : servers_started_by(next.pid());
    wait_for_steps(10);
    kill_and_wait(next);
  }
  const Finished last = run_program(folder_.path(), served({"--resume"}));
  slow.reset();
  EXPECT_EQ(last.exit_code, 0) << last.err;
  EXPECT_THAT(last.err, HasSubstr("took over headless"));

  const Finished undisturbed = run_program(folder_.path(), train_arguments(2, {"job.runs=calm"}));
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  const auto end = [this](const char* runs) {
    for (const Json& row : metrics(runs))
      if (row.at("event") == "finished") return row;
    throw std::runtime_error("it has not finished");
  };
  for (const char* key : {"step", "weights", "test_loss", "best_step"})
    EXPECT_EQ(end("runs").at(key), end("calm").at(key)) << key;
  expect_nothing_left();
}

TEST_P(CoordinatorOfServers, ServersOfWorkersThatNobodyTakesOverEndWithThem) {
  Program program(folder_.path(), served({"job.epochs=2000", "parallel.orphan_seconds=0.5"}));
  wait_until_it_trains(program);
  std::vector<ProcessId> all = servers_started_by(program.pid());
  const std::vector<ProcessId> workers = members(status());
  all.insert(all.end(), workers.begin(), workers.end());
  kill_and_wait(program);
  wait_for_deaths(all, std::chrono::seconds(60));
  EXPECT_EQ(last_metric().at("event"), "interrupted");
}

INSTANTIATE_TEST_SUITE_P(Servers, CoordinatorOfServers, ::testing::Values(2, 0), [](const auto& info) {
  return info.param == 0 ? std::string("workers_serve") : std::string("processes");
});

TEST_F(Coordinator, WhatItAcknowledgedStillHolds) {
  Program program(folder_.path(), train_arguments("1:2", {"job.epochs=20000"}));
  wait_until_it_trains(program);
  status();  // it can be commanded
  const Finished scaled = run_program(folder_ / "other", {"scale", run_folder().string(), "1"});
  ASSERT_EQ(scaled.exit_code, 0) << scaled.err;
  kill_and_wait(program);
  Program second(folder_.path(), {"attach", run_folder().string()});
  const Json now = wait_for(
      [](const Json& status) { return status.at("coordinator").at("live") && status.at("members").size() == 1; });
  EXPECT_EQ(now.at("workers").at("target"), 1);
  const Finished again = run_program(folder_ / "other", {"attach", run_folder().string()});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr(fmt::format("process {} coordinates the job", second.pid())));
  const Finished stopped = run_program(folder_ / "other", {"stop", run_folder().string()});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(second.wait().exit_code, 143);
  EXPECT_EQ(last_metric().at("event"), "interrupted");
  expect_nothing_left();
}

TEST_F(Coordinator, WorkersThatNobodyTakesOverWriteACheckpointAndEnd) {
  Program program(folder_.path(), train_arguments("1:2", {"job.epochs=2000", "parallel.orphan_seconds=0.5"}));
  wait_until_it_trains(program);
  const Json before = status();
  kill_and_wait(program);
  wait_for_deaths(members(before), std::chrono::seconds(60));
  const Json end = last_metric();
  EXPECT_EQ(end.at("event"), "interrupted");
  EXPECT_TRUE(std::filesystem::exists(run_folder() / "checkpoints" /
                                      fmt::format("step-{:012}", end.at("step").get<std::uint64_t>())));
  const Finished late = run_program(folder_ / "other", {"attach", run_folder().string()});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.err, HasSubstr("no worker of this job lives any more"));
  // Nothing has failed: the run is as its workers left it.
  const Json after = status();
  EXPECT_EQ(after.at("state"), "abandoned");
  EXPECT_EQ(after.at("step"), end.at("step"));
  expect_nothing_left();
}

// One worker is stopped, so that those who are left wait for it when another one dies; then it stays stopped, or dies
// as well. The last one goes on alone, and does what is promised of workers that nobody takes over.
class CoordinatorGone : public Coordinator, public ::testing::WithParamInterface<bool> {};

TEST_P(CoordinatorGone, ALossWhileTheOthersRegroupIsSettledToo) {
  const bool dies = GetParam();
  // Stopped workers are found within the liveness: longer than it takes to kill one of them here.
  Program program(folder_.path(),
                  train_arguments(3, {"job.epochs=20000", "parallel.orphan_seconds=8",
                                      dies ? "parallel.liveness_seconds=3600" : "parallel.liveness_seconds=0.5"}));
  wait_until_it_trains(program);
  const std::vector<ProcessId> workers = members(status());
  ASSERT_EQ(workers.size(), 3U);
  kill_and_wait(program);
  ::kill(workers[2].pid, SIGSTOP);
  ::kill(workers[1].pid, SIGKILL);
  if (dies) {
    system_clock().sleep_for(std::chrono::milliseconds(500));  // sleeps: the first one waits for it meanwhile
    ::kill(workers[2].pid, SIGKILL);
  }
  wait_for_deaths(workers, std::chrono::seconds(120));
  const Json end = last_metric();
  EXPECT_EQ(end.at("event"), "interrupted");
  EXPECT_TRUE(std::filesystem::exists(run_folder() / "checkpoints" /
                                      fmt::format("step-{:012}", end.at("step").get<std::uint64_t>())));
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(TheOneThatIsWaitedFor, CoordinatorGone, ::testing::Values(false, true),
                         [](const auto& info) { return std::string(info.param ? "dies" : "is_stopped"); });

// A large checkpoint takes long to load: the job is there all the same.
TEST_F(Coordinator, AJobThatLoadsItsCheckpointIsKnownAndCanBeStopped) {
  const Finished first = run_program(folder_.path(), train_arguments(1, {"job.epochs=1"}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::filesystem::path run = run_folder();
  const testing::Failpoints armed("run.checkpoint.load=delay=600000");
  Program resumed(folder_.path(), train_arguments(2, {"--resume"}));
  Json now;
  ASSERT_TRUE(testing::eventually([&] {
    const Finished asked = run_program(folder_ / "other", {"status", run.string(), "--json"});
    now = asked.exit_code == 0 ? rows(asked.out).front() : Json::object();
    return now.value("state", "") == "starting" && now.value("reason", "") == "loading the newest checkpoint";
  })) << now
      << resumed.err();
  EXPECT_EQ(now.at("coordinator").at("live"), true);
  EXPECT_EQ(now.at("members").size(), 2U);
  const Finished stopped = run_program(folder_ / "other", {"stop", run.string(), "--timeout", "60"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(resumed.wait().exit_code, 128 + SIGTERM);
  const Finished after = run_program(folder_ / "other", {"status", run.string(), "--json"});
  EXPECT_EQ(rows(after.out).front().at("state"), "stopped");
}

// So does a large index of data, before anything of the job is there but the job.
TEST_F(Coordinator, AJobThatReadsItsDataIsKnownAndTakesCommandsFromItsFirstSecond) {
  const testing::Failpoints armed("run.data.read=delay=600000");
  Program program(folder_.path(), train_arguments("1:3", {}));
  const auto ask = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--runs", (folder_ / "runs").string()});
    return run_program(folder_ / "other", words);
  };
  Json now;
  ASSERT_TRUE(testing::eventually([&] {
    const Finished asked = ask({"status", "headless", "--json"});
    now = asked.exit_code == 0 ? rows(asked.out).front() : Json::object();
    return now.value("reason", "") == "reading the data";
  })) << now
      << program.err();
  EXPECT_EQ(now.at("state"), "starting");
  EXPECT_EQ(now.at("coordinator").at("live"), true);
  EXPECT_EQ(now.at("members").size(), 3U);
  EXPECT_THAT(ask({"status"}).out, HasSubstr("headless"));
  const Finished scaled = ask({"scale", "headless", "2"});
  EXPECT_EQ(scaled.exit_code, 0) << scaled.err;
  wait_for([](const Json& status) { return status.at("members").size() == 2U; });
  const Finished set = ask({"set", "headless", "optimizer.lr=0.01"});
  EXPECT_EQ(set.exit_code, 0) << set.err;
  const Finished stopped = ask({"stop", "headless", "--timeout", "60"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(program.wait().exit_code, 128 + SIGTERM);
  EXPECT_EQ(rows(ask({"status", "headless", "--json"}).out).front().at("state"), "stopped");
  expect_nothing_left();
}

// Whoever founds the job after it loads as long: it can be told to end as well.
TEST_F(Coordinator, TheNextFounderThatLoadsCanBeStoppedToo) {
  const testing::Failpoints armed("run.data.read=delay=600000@rank=0,attempt=1;run.data.read=kill@rank=0,attempt=0");
  Program program(folder_.path(), train_arguments(1));
  ASSERT_TRUE(testing::eventually([&] { return program.err().find("is lost") != std::string::npos; })) << program.err();
  wait_for([](const Json& now) { return now.at("members").at(0).at("restarts") == 1; });
  const Finished stopped = run_program(folder_ / "other", {"stop", run_folder().string(), "--timeout", "60"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(program.wait().exit_code, 128 + SIGTERM);
}

TEST_F(Coordinator, OneThatIsKilledWhileItsWorkersLoadLeavesARunThatNobodyRuns) {
  const testing::Failpoints armed("run.data.read=delay=600000");
  Program program(folder_.path(), train_arguments(2));
  ASSERT_TRUE(testing::eventually([&] { return is_begun(); })) << program.err();
  const std::vector<ProcessId> workers =
      members(wait_for([](const Json& now) { return now.at("members").size() == 2U; }));
  kill_and_wait(program);
  wait_for_deaths(workers, std::chrono::seconds(60));
  EXPECT_EQ(rows(run_program(folder_ / "other", {"status", run_folder().string(), "--json"}).out).front().at("state"),
            "abandoned");
  const Finished attached = run_program(folder_ / "other", {"attach", run_folder().string()});
  EXPECT_EQ(attached.exit_code, 1);
  EXPECT_THAT(attached.err, HasSubstr("no worker of this job lives any more"));
}

TEST_F(Coordinator, AFinishedRunStaysFinishedWhenSomebodyAttaches) {
  const Finished result = run_program(folder_.path(), train_arguments(1, {"job.epochs=1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json before = status();
  ASSERT_EQ(before.at("state"), "finished");
  const Finished late = run_program(folder_ / "other", {"attach", run_folder().string()});
  EXPECT_EQ(late.exit_code, 1);
  const Json after = status();
  EXPECT_EQ(after.at("state"), "finished");
  EXPECT_EQ(after.at("step"), before.at("step"));
}

// What was trained before does not become a failure because it could not be loaded.
TEST_F(Coordinator, ARunWhoseDataHasChangedStaysAsItWas) {
  testing::spill(folder_ / "table.csv", "a,b\n1,x\n2,y\n3,x\n4,y\n5,x\n6,y\n7,x\n8,y\n");
  testing::spill(folder_ / "job.toml",
                 "[job]\nname = \"table\"\nepochs = 1\n[data]\nsource = \"csv\"\npath = \"table.csv\"\nbatch = 4\n"
                 "[model]\nname = \"mlp\"\nhidden = [4]\n");
  const Finished first = run_program(folder_.path(), {"train", "job.toml", "-q"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  testing::spill(folder_ / "table.csv", "a,b\n1,x\n2,y\n3,x\n4,y\n5,x\n6,y\n7,x\n9,y\n");
  const Finished resumed =
      run_program(folder_.path(), {"train", "job.toml", "-q", "--resume", "--set", "job.epochs=2"});
  EXPECT_EQ(resumed.exit_code, 2) << resumed.err;
  EXPECT_EQ(rows(run_program(folder_ / "other", {"status", run_folder().string(), "--json"}).out).front().at("state"),
            "finished");
}

TEST_F(Coordinator, AFounderThatIsLostBeforeAnybodyTrainsLeavesItsRunToTheNextOne) {
  const Finished whole = run_program(folder_.path(), train_arguments(2, {"job.epochs=2", "job.runs=\"whole\""}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const testing::Failpoints armed("run.found=kill@rank=0,attempt=0");
  const Finished result = run_program(folder_.path(), train_arguments(2, {"job.epochs=2"}));
  testing::expect_same_end(result, rows(whole.out).back(), "after a loss");
  EXPECT_THAT(result.err, HasSubstr("is lost")) << "nobody was killed";
  const auto runs = std::filesystem::directory_iterator(folder_ / "runs");
  EXPECT_EQ(std::distance(begin(runs), end(runs)), 1) << "a second folder was made";
  EXPECT_EQ(status().at("state"), "finished");
}

}  // namespace
}  // namespace muster
