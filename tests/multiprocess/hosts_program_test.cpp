// Jobs of several hosts as a user types them: what is refused, what is said while hosts are waited for, what status
// shows. What hosts do when they are lost is in tests/unit/coordinator/hosts_faults_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "muster/base/json.h"
#include "muster/base/process.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::eventually;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::small_job;
using testing::spill;
using testing::TemporaryFolder;
using testing::train_arguments;

class HostsProgramTest : public ::testing::Test {
 protected:
  HostsProgramTest() {
    spill(folder_ / "job.toml", small_job("small"));
    for (const char* name : {"agent", "desk"})
      std::filesystem::create_directory(folder_ / name);
  }
  // A command to the job, from a folder of its own: what programs print is kept where they run.
  Finished command(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--runs", "../runs"});
    return run_program(folder_ / "desk", std::move(arguments));
  }
  // The same on the other host, whose runs are in a folder of its own.
  Finished command_there(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--runs", "../agent/runs"});
    return run_program(folder_ / "desk", std::move(arguments));
  }
  Json status_there() {
    const Finished result = command_there({"status", "small", "--json"});
    return result.exit_code == 0 && !result.out.empty() ? Json::parse(result.out) : Json::object();
  }
  // The only run of a host.
  static std::filesystem::path run_in(const std::filesystem::path& runs) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(runs, none))
      return entry.path();
    return {};
  }
  // What it knows of changes of the job and their steps.
  static std::string changes_in(const std::filesystem::path& runs) {
    const std::filesystem::path file = run_in(runs) / "changes.jsonl";
    return std::filesystem::exists(file) ? testing::slurp(file) : "";
  }
  // As the coordinator says it.
  static std::string address_in(const std::string& text) {
    const std::size_t place = text.find("--join ");
    if (place == std::string::npos || text.find('\n', place) == std::string::npos) return {};
    return text.substr(place + 7, text.find('\n', place) - place - 7);
  }

  TemporaryFolder folder_;
};

TEST_F(HostsProgramTest, AnAddressThatOthersCanReachNeedsMoreThanAnAddress) {
  const std::vector<std::string> arguments = train_arguments(1, {"parallel.hosts=\"1:2\"", "--listen=0.0.0.0:0"});
  const Finished refused = run_program(folder_.path(), arguments);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("0.0.0.0:0"), HasSubstr("--insecure")));
  const Finished stranger = run_program(folder_.path(), {"agent", "--join", "10.0.0.1:7400"});
  EXPECT_EQ(stranger.exit_code, 2);
  EXPECT_THAT(stranger.err, AllOf(HasSubstr("10.0.0.1:7400"), HasSubstr("--insecure")));
  const Finished none = run_program(folder_.path(), {"agent", "--join", "nowhere"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("as 10.0.0.1:7400"));
}

TEST_F(HostsProgramTest, FlagsAndTheJobHaveToAgree) {
  const Finished deaf = run_program(folder_.path(), train_arguments(1, {"parallel.hosts=2"}));
  EXPECT_EQ(deaf.exit_code, 2);
  EXPECT_THAT(deaf.err, AllOf(HasSubstr("parallel.hosts"), HasSubstr("--listen")));
  const Finished alone = run_program(folder_.path(), train_arguments(1, {"--listen=127.0.0.1:0"}));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("nobody could join"));
  const Finished many = run_program(folder_.path(), train_arguments(2, {"parallel.hosts=3", "--listen=127.0.0.1:0"}));
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_THAT(many.err, HasSubstr("3 hosts of 2 workers cannot share 4 lanes"));
  const Finished fixed =
      run_program(folder_.path(), train_arguments(1, {"parallel.hosts=\"1:2\"", "parallel.strategy=\"all_reduce\""}));
  EXPECT_EQ(fixed.exit_code, 2);
  EXPECT_THAT(fixed.err, HasSubstr("a range cannot go with all_reduce: its hosts are fixed"));
  const Finished served = run_program(
      folder_.path(),
      train_arguments(1, {"parallel.hosts=2", "parallel.strategy=\"parameter_server\"", "parallel.servers=0"}));
  EXPECT_EQ(served.exit_code, 2);
  EXPECT_THAT(served.err, HasSubstr("workers cannot serve on several hosts"));
}

TEST_F(HostsProgramTest, AnAgentWithoutACoordinatorSaysSoAndEnds) {
  const Finished end = run_program(folder_.path(), {"agent", "--join", "127.0.0.1:1", "--wait", "0.3"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr("waiting for the coordinator"), HasSubstr("127.0.0.1:1")));
}

TEST_F(HostsProgramTest, AnAgentWithSeveralAddressesSaysOfEachOnceWhatItWaitsFor) {
  const Finished end = run_program(folder_.path(), {"agent", "--join", "127.0.0.1:1,127.0.0.1:2", "--wait", "3"});
  EXPECT_EQ(end.exit_code, 1);
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = end.err.find("waiting for the coordinator", at)) != std::string::npos; ++at)
    ++lines;
  EXPECT_LE(lines, 4U) << end.err;  // what went wrong at an address may be told in two ways
}

TEST_F(HostsProgramTest, HelpTells) {
  EXPECT_THAT(run_program(folder_.path(), {"agent", "--help"}).out,
              AllOf(HasSubstr("--join"), HasSubstr("--interface"), HasSubstr("--workers"), HasSubstr("exit code")));
  EXPECT_THAT(run_program(folder_.path(), {"train", "--help"}).out, HasSubstr("--listen"));
}

TEST_F(HostsProgramTest, AJobThatMayHaveSeveralHostsTrainsOnOneWithTheSameBits) {
  const Finished plain = run_program(folder_.path(), train_arguments(2));
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  const Finished led =
      run_program(folder_.path(), train_arguments(2, {"parallel.hosts=\"1:2\"", "--listen=127.0.0.1:0"}));
  testing::expect_same_end(led, rows(plain.out).back(), "as the first of at most two hosts");
  EXPECT_THAT(led.err, HasSubstr("agents join by: muster agent --join 127.0.0.1:"));
}

TEST_F(HostsProgramTest, TheCoordinatorWaitsForHostsAndStopsWhenItIsTold) {
  Program coordinator(folder_.path(), train_arguments(1, {"parallel.hosts=2", "--listen=127.0.0.1:0"}));
  EXPECT_TRUE(eventually([&] { return coordinator.err().find("waiting for hosts: 1 of 2") != std::string::npos; }))
      << coordinator.err();
  coordinator.signal(SIGTERM);
  const Finished end = coordinator.wait();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM) << end.err;
  EXPECT_THAT(end.err, HasSubstr("nothing was trained yet"));
}

TEST_F(HostsProgramTest, StatusShowsTheHostsAndStopReachesAllOfThem) {
  Program coordinator(folder_.path(),
                      train_arguments(1, {"parallel.hosts=2", "job.epochs=100000", "--listen=127.0.0.1:0"}));
  EXPECT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
  Program agent(folder_ / "agent", {"agent", "--join", address_in(coordinator.err()), "--name", "second"});
  std::string page;
  EXPECT_TRUE(eventually([&] {
    page = command({"status", "small", "--json"}).out;
    if (page.empty()) return false;
    const Json json = Json::parse(page);
    return json.contains("hosts") && json["hosts"].size() == 2 && json["hosts"][1]["workers"] == 1;
  })) << page
      << coordinator.err() << agent.err();
  const Json hosts = Json::parse(page)["hosts"];
  EXPECT_EQ(hosts[0]["first_lane"], 0);
  EXPECT_EQ(hosts[0]["last_lane"], hosts[1]["first_lane"]);
  EXPECT_EQ(hosts[1]["last_lane"], 4);
  EXPECT_EQ(hosts[1]["name"], "second");
  EXPECT_THAT(command({"status", "small"}).out, AllOf(HasSubstr("HOST"), HasSubstr("second")));
  const Finished stop = command({"stop", "small"});
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  EXPECT_EQ(coordinator.wait().exit_code, 128 + SIGTERM);
  const Finished end = agent.wait();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM) << end.err;
  EXPECT_THAT(end.err, HasSubstr("joined small as host 2, with 1 worker"));
}

// What a follower cannot write stops nobody: it is said where the job is led, and tried again with each checkpoint.
TEST_F(HostsProgramTest, ACopyOfTheRunThatCannotBeWrittenIsToldAndTriedAgain) {
  const testing::Failpoints slow("arena.commit.before_flip=delay=10");
  Program coordinator(folder_.path(), train_arguments(1, {"parallel.hosts=2", "job.epochs=100000",
                                                          "checkpoint.every_steps=3", "--listen=127.0.0.1:0"}));
  EXPECT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
  Program agent(folder_ / "agent", {"agent", "--join", address_in(coordinator.err()), "--name", "second"});
  Json status;
  const auto told = [&](const std::function<bool(const Json& second)>& enough) {
    return eventually([&] {
      status = status_there();
      return status.contains("hosts") && status["hosts"].size() == 2 && enough(status["hosts"][1]);
    });
  };
  EXPECT_TRUE(told([](const Json& host) { return host["folder"] == "copy" && host["checkpoint"] > 0; }))
      << status << coordinator.err() << agent.err();
  EXPECT_EQ(status["hosts"][0]["folder"], "leads");

  const std::filesystem::path checkpoints = run_in(folder_ / "agent" / "runs") / "checkpoints";
  std::filesystem::rename(checkpoints, folder_ / "aside");
  spill(checkpoints, "a file, where a folder was");
  EXPECT_TRUE(told([](const Json& host) { return !host["alarm"].get<std::string>().empty(); }))
      << status << coordinator.err() << agent.err();
  EXPECT_THAT(status["alarms"].dump(),
              AllOf(HasSubstr("host second (2)"), HasSubstr("no checkpoint was written since")));
  const std::uint64_t failed_at = status["step"];
  EXPECT_TRUE(told([&](const Json& host) { return host["step"] > failed_at + 10; })) << "training goes on";
  EXPECT_TRUE(eventually([&] {
    return coordinator.err().find("host second (2), which keeps a copy of the run: no checkpoint") != std::string::npos;
  })) << coordinator.err();

  std::filesystem::remove(checkpoints);
  EXPECT_TRUE(told([&](const Json& host) {
    return host["alarm"].get<std::string>().empty() && host["checkpoint"] > failed_at + 10;
  })) << status
      << coordinator.err() << agent.err();
  EXPECT_EQ(command({"stop", "small"}).exit_code, 0);
  EXPECT_EQ(coordinator.wait().exit_code, 128 + SIGTERM);
  EXPECT_EQ(agent.wait().exit_code, 128 + SIGTERM);
  // Both have written the last one, and it is the same.
  const auto newest = [](const std::filesystem::path& run) {
    std::set<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints"))
      if (entry.is_directory()) found.insert(entry.path());
    return *found.rbegin();
  };
  const std::filesystem::path here = newest(run_in(folder_ / "runs"));
  const std::filesystem::path there = newest(checkpoints.parent_path());
  EXPECT_EQ(here.filename(), there.filename());
  for (const char* part : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(testing::slurp(here / part), testing::slurp(there / part)) << part;
}

// Both hosts are started where the runs are: what one writes the other sees, and nothing is written twice.
TEST_F(HostsProgramTest, HostsThatSeeOneFolderKeepNoCopies) {
  std::filesystem::create_directory_symlink(folder_ / "runs", folder_ / "agent" / "runs");
  const testing::Failpoints slow("arena.commit.before_flip=delay=10");
  Program coordinator(folder_.path(), train_arguments(1, {"parallel.hosts=2", "job.epochs=100000", "job.ledger=true",
                                                          "checkpoint.every_steps=3", "--listen=127.0.0.1:0"}));
  EXPECT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
  Program agent(folder_ / "agent", {"agent", "--join", address_in(coordinator.err()), "--name", "second"});
  Json status;
  EXPECT_TRUE(eventually([&] {
    status = status_there();
    return status.contains("hosts") && status["hosts"].size() == 2 && status["hosts"][0]["checkpoint"] > 0 &&
           status["hosts"][1]["folder"] == "shared";
  })) << status
      << coordinator.err() << agent.err();
  EXPECT_EQ(status["hosts"][0]["folder"], "leads");
  EXPECT_TRUE(status["hosts"][1]["checkpoint"].is_null());
  EXPECT_EQ(command({"stop", "small"}).exit_code, 0);
  EXPECT_EQ(coordinator.wait().exit_code, 128 + SIGTERM);
  EXPECT_EQ(agent.wait().exit_code, 128 + SIGTERM);
  std::size_t parts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run_in(folder_ / "runs") / "ledger"))
    parts += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(parts, 2U) << "one of each worker";
  EXPECT_EQ(command({"ledger", "check", "small"}).exit_code, 0);
}

TEST_F(HostsProgramTest, CommandsAreTakenOnEveryHost) {
  Program coordinator(folder_.path(),
                      train_arguments("1:2", {"parallel.hosts=2", "job.epochs=100000", "--listen=127.0.0.1:0"}));
  EXPECT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
  Program agent(folder_ / "agent", {"agent", "--join", address_in(coordinator.err()), "--name", "second"});
  Json status;
  const auto workers_are = [&](int count) {
    return eventually([&] {
      status = status_there();
      return status.contains("hosts") && status["hosts"].size() == 2 && status["hosts"][0]["workers"] == count &&
             status["hosts"][1]["workers"] == count;
    });
  };
  EXPECT_TRUE(workers_are(2)) << status << coordinator.err() << agent.err();
  EXPECT_TRUE(status["coordinator"]["live"]);
  EXPECT_EQ(status["members"].size(), 2U);
  for (const Json& member : status["members"])
    EXPECT_THAT(testing::children_of(agent.pid()), ::testing::Contains(member["pid"].get<pid_t>()))
        << "the workers of this host";
  EXPECT_THAT(command_there({"status", "small"}).out, AllOf(HasSubstr("second"), HasSubstr(" on ")));

  EXPECT_EQ(command_there({"scale", "small", "1"}).exit_code, 0);
  EXPECT_TRUE(workers_are(1)) << status << coordinator.err() << agent.err();
  const Finished refused = command_there({"scale", "small", "3"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the job takes 1 to 2"));

  const Finished logs = command_there({"logs", "small"});
  EXPECT_EQ(logs.exit_code, 0) << logs.err;
  EXPECT_THAT(logs.out, HasSubstr(fmt::format("pid {}", status["members"][0]["pid"].get<int>())));
  EXPECT_THAT(logs.err, AllOf(HasSubstr("this host"), HasSubstr("127.0.0.1:")));
  EXPECT_THAT(command_there({"logs", "small", "--supervisor"}).out, HasSubstr("is the agent of this host"));

  const Finished stop = command_there({"stop", "small"});
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  EXPECT_THAT(stop.out, HasSubstr("stopped at step"));
  EXPECT_EQ(coordinator.wait().exit_code, 128 + SIGTERM);
  EXPECT_EQ(agent.wait().exit_code, 128 + SIGTERM);
  EXPECT_THAT(command({"logs", "small", "--supervisor"}).out,
              AllOf(HasSubstr("host second (2) passes on: muster scale, workers: 1"),
                    HasSubstr("host second (2) passes on: muster stop")));
}

TEST_F(HostsProgramTest, ACoordinatorThatIsKilledIsReplacedAndNobodyLosesAStep) {
  spill(folder_ / "job.toml", testing::stateful_job("small", {"job.epochs=40"}));
  const Finished alone = run_program(folder_.path(), train_arguments(1, {"job.runs=\"undisturbed\""}));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const testing::Failpoints slow("arena.commit.before_flip=delay=20");
  Program coordinator(folder_.path(), train_arguments(1, {"parallel.hosts=2", "--listen=127.0.0.1:0"}));
  EXPECT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
  Program agent(folder_ / "agent", {"agent", "--join", address_in(coordinator.err())});
  Json status;
  // Whoever coordinates, once both hosts train further steps; gives the worker of the first host.
  const auto worker_here = [&](std::uint64_t term) {
    std::optional<int> before;
    EXPECT_TRUE(eventually([&] {
      const Finished result = command({"status", "small", "--json"});
      status = result.exit_code == 0 && !result.out.empty() ? Json::parse(result.out) : Json();
      if (!status.contains("hosts") || status["hosts"].size() != 2 || status["hosts"][1]["number"] < term * 100'000)
        return false;
      if (!before) before = status["step"].get<int>();
      return status["step"] > *before + 2;
    })) << status
        << coordinator.err() << agent.err();
    return status["members"][0]["pid"].get<int>();
  };
  const int worker = worker_here(0);
  coordinator.signal(SIGKILL);
  coordinator.wait();
  Finished end;
  for (const std::uint64_t term : {1, 2}) {
    const std::filesystem::path there = folder_ / fmt::format("desk-{}", term);
    std::filesystem::create_directory(there);
    Program next(there, {"attach", "small", "--runs", "../runs"});
    EXPECT_EQ(worker_here(term), worker) << "the same processes train; " << next.err();
    if (term == 1) next.signal(SIGKILL);
    end = next.wait();
  }
  EXPECT_EQ(end.exit_code, 0) << end.err;
  end.out = coordinator.out();  // workers print where they did
  testing::expect_same_end(end, rows(alone.out).back(), "two coordinators were killed");
  const Finished other = agent.wait();
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, AllOf(HasSubstr("(term 2)"), HasSubstr("(term 3)")));
}

// Without anybody who decides on members the last worker cannot go on alone; what it has committed is not lost with it.
TEST_F(HostsProgramTest, AWorkerThatNobodyTakesOverKeepsWhatItHas) {
  const testing::Failpoints slow("arena.commit.before_flip=delay=20");
  Program coordinator(folder_.path(), train_arguments(1, {"parallel.hosts=2", "job.epochs=100000",
                                                          "parallel.orphan_seconds=4", "checkpoint.every_steps=1000000",
                                                          "checkpoint.every_epochs=1000000", "--listen=127.0.0.1:0"}));
  ASSERT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
  Program agent(folder_ / "agent", {"agent", "--join", address_in(coordinator.err())});
  Json here;
  Json there;
  ASSERT_TRUE(eventually([&] {
    const Finished result = command({"status", "small", "--json"});
    here = result.exit_code == 0 && !result.out.empty() ? Json::parse(result.out) : Json::object();
    there = status_there();
    return here.contains("hosts") && here["hosts"].size() == 2 && here["step"] > 5 && there.contains("members") &&
           !there["members"].empty();
  })) << here
      << there << coordinator.err() << agent.err();
  const ProcessId worker = process_of(here["members"][0]["pid"].get<pid_t>());
  coordinator.signal(SIGKILL);
  coordinator.wait();
  agent.signal(SIGKILL);
  agent.wait();
  ::kill(there["members"][0]["pid"].get<pid_t>(), SIGKILL);
  EXPECT_TRUE(
      eventually([&] { return state_of(worker) == ProcessState::kGone; }, Deadline::after(std::chrono::minutes(3))));
  std::uint64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run_in(folder_ / "runs") / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-")) newest = std::max<std::uint64_t>(newest, std::stoull(name.substr(5)));
  }
  // "step 51: rank 1 died ...; going on with those who are left": 50 were committed. Checkpoints of the best epochs are
  // older, as a rule.
  const std::string log = testing::slurp(run_in(folder_ / "runs") / "log.txt");
  const std::size_t loss = log.rfind("step ", log.rfind("going on with those who are left"));
  ASSERT_NE(loss, std::string::npos) << log;
  EXPECT_GE(newest + 1, std::stoull(log.substr(loss + 5))) << log;
}

TEST_F(HostsProgramTest, AChangeCountsFromOneStepOnOnAllHosts) {
  spill(folder_ / "job.toml", small_job("small", {"job.epochs=", "job.steps=100000", "data.samples=6400"}));
  {
    const testing::Failpoints slow("arena.commit.before_flip=delay=10");
    Program coordinator(folder_.path(), train_arguments(1, {"parallel.hosts=2", "--listen=127.0.0.1:0"}));
    EXPECT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
    Program agent(folder_ / "agent", {"agent", "--join", address_in(coordinator.err())});
    EXPECT_TRUE(eventually([&] { return status_there().value("step", 0) > 5; })) << coordinator.err() << agent.err();
    const Finished set = command_there({"set", "small", "optimizer.lr=0.05"});
    EXPECT_EQ(set.exit_code, 0) << set.err;
    const auto made = [&](std::size_t count) {
      return eventually([&] {
        const std::string here = changes_in(folder_ / "runs");
        return rows(here).size() == count && here == changes_in(folder_ / "agent" / "runs");
      });
    };
    EXPECT_TRUE(made(1)) << coordinator.err() << agent.err();
    const Finished again = command({"set", "small", "optimizer.momentum=0.5"});
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_TRUE(made(2)) << coordinator.err() << agent.err();
    Json changes;
    EXPECT_TRUE(eventually([&] {
      changes = status_there().value("changes", Json::array());
      return changes.size() == 2 && changes[1]["step"].is_number();
    })) << changes;
    const Finished refused = command_there({"set", "small", "job.lanes=2"});
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_EQ(command_there({"stop", "small"}).exit_code, 0);
    EXPECT_EQ(coordinator.wait().exit_code, 128 + SIGTERM);
    EXPECT_EQ(agent.wait().exit_code, 128 + SIGTERM);
  }
  // What both hosts have trained goes on on one; and one worker makes all of it from the first step, with the changes
  // where they were.
  const std::filesystem::path run = run_in(folder_ / "runs");
  const Json status = Json::parse(command({"status", "small", "--json"}).out);
  const std::string steps = fmt::format("job.steps={}", status.at("step").get<int>() + 20);
  std::filesystem::create_directory(folder_ / "again");
  std::filesystem::copy(run, folder_ / "again" / run.filename(), std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(folder_ / "again" / run.filename() / "checkpoints");
  const Finished resumed = run_program(folder_.path(), train_arguments(1, {"--resume", steps}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const Finished again = run_program(folder_.path(), train_arguments(1, {"--resume", steps, "job.runs=again"}));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(rows(again.out).back().at("weights"), rows(resumed.out).back().at("weights"));
  const Finished unchanged = run_program(folder_.path(), train_arguments(1, {steps, "job.runs=unchanged"}));
  EXPECT_NE(rows(unchanged.out).back().at("weights"), rows(resumed.out).back().at("weights"));
}

}  // namespace
}  // namespace muster
