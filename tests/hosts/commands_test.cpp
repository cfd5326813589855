// Commands to jobs of several hosts, and the loss of their coordinator, on hosts that share nothing but a network: what
// is typed on one reaches all, and whoever coordinates, the weights are those of one worker on one host.
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

#include "support/eventually.h"
#include "support/hosts.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kPort = "7400";
constexpr std::chrono::seconds kLongest{300};

class HostsCommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
  }

  // `count` hosts; the first has the job file.
  void prepare(int count, std::vector<std::string> more) {
    more.insert(more.end(), {"parallel.interface=\"eth0\"", "parallel.host_seconds=2.0"});
    hosts_.emplace(count);
    spill((*hosts_)[0].file("/tmp/work/job.toml"), stateful_job("far", more));
  }
  // What one worker on one host makes of the job.
  Json alone() {
    const Finished end = (*hosts_)[0].run({MUSTER_PROGRAM, "train", "job.toml", "--json", "--set", "parallel.hosts=1",
                                           "--set", "parallel.workers=1", "--set", "job.runs=undisturbed"},
                                          kLongest);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return rows(end.out).back();
  }
  std::string address(int host = 0) { return (*hosts_)[host].address() + ":" + kPort; }
  // Each commit takes a while, so that there is time for something to happen.
  static std::vector<std::string> slowly() { return {"MUSTER_FAILPOINTS=arena.commit.before_arrival=delay=25"}; }

  HostProgram train(const std::string& hosts) {
    std::vector<std::string> words{MUSTER_PROGRAM};
    const std::vector<std::string> arguments = train_arguments("1", {"parallel.hosts=" + hosts});
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--listen", address(), "--insecure"});
    return (*hosts_)[0].start(words, slowly());
  }
  HostProgram agent(int host, const std::string& join) {
    return (*hosts_)[host].start({MUSTER_PROGRAM, "agent", "--join", join, "--insecure"}, slowly());
  }
  Finished on(int host, std::vector<std::string> words) {
    words.insert(words.begin(), MUSTER_PROGRAM);
    return (*hosts_)[host].run(std::move(words));
  }
  // Where the job stands, as `muster status` on that host has it.
  Json status(int host) {
    const Finished result = on(host, {"status", "far", "--json"});
    return result.exit_code == 0 && !result.out.empty() ? rows(result.out).back() : Json();
  }
  // Once a coordinator of that term has so many hosts that go on.
  void wait_for(int on_host, std::size_t hosts, std::uint64_t term = 1) {
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
  // How the job has ended by the files of the host that led it.
  Json end_of(int host) {
    Json end;
    const std::filesystem::path file = run_of(host) / "metrics.jsonl";
    if (!std::filesystem::exists(file)) return end;
    for (const Json& row : rows(slurp(file)))
      if (row.at("event") == "finished") end = row;
    return end;
  }
  // `muster attach` there, which listens at that host's own address.
  HostProgram attach(int host) {
    return (*hosts_)[host].start({MUSTER_PROGRAM, "attach", "far", "--listen", address(host), "--insecure"});
  }
  // That a host's agent has found out that nobody coordinates.
  void wait_until_alone(int host) {
    ASSERT_TRUE(eventually(
        [&] {
          const Json now = status(host);
          return now.is_object() && !now["coordinator"]["live"].get<bool>();
        },
        Deadline::after(kLongest)));
  }
  // The only run of a host.
  std::filesystem::path run_of(int host) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator((*hosts_)[host].file("/tmp/work/runs"), none))
      return entry.path();
    return {};
  }
  std::string changes_of(int host) {
    const std::filesystem::path file = run_of(host) / "changes.jsonl";
    return std::filesystem::exists(file) ? slurp(file) : "";
  }

  std::optional<Hosts> hosts_;
};

TEST_F(HostsCommandsTest, WhatIsTypedOnOneHostReachesAll) {
  prepare(3, {"job.epochs=100000"});
  HostProgram first = train("3");
  HostProgram second = agent(1, address());
  HostProgram third = agent(2, address());
  wait_for(2, 3);
  const Json there = status(1);
  EXPECT_EQ(there["coordinator"]["host"], (*hosts_)[0].name());
  ASSERT_EQ(there["members"].size(), 1U);
  EXPECT_THAT((*hosts_)[1].processes(), ::testing::Contains(there["members"][0]["pid"].get<pid_t>()));
  const Finished set = on(1, {"set", "far", "optimizer.lr=0.01"});
  ASSERT_EQ(set.exit_code, 0) << set.err;
  EXPECT_TRUE(eventually([&] {
    return rows(changes_of(0)).size() == 1 && changes_of(0) == changes_of(1) && changes_of(0) == changes_of(2);
  })) << first.err()
      << second.err() << third.err();
  const Finished logs = on(2, {"logs", "far"});
  EXPECT_EQ(logs.exit_code, 0) << logs.err;
  EXPECT_THAT(logs.err, HasSubstr(address()));
  const Finished stop = on(2, {"stop", "far"});
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  for (HostProgram* program : {&first, &second, &third})
    EXPECT_EQ(program->wait().exit_code, 128 + SIGTERM) << program->err();
  EXPECT_THAT(on(0, {"logs", "far", "--supervisor"}).out,
              AllOf(HasSubstr(fmt::format("host {} (", (*hosts_)[1].name())), HasSubstr("passes on: muster set"),
                    HasSubstr(fmt::format("host {} (", (*hosts_)[2].name())), HasSubstr("passes on: muster stop")));
}

TEST_F(HostsCommandsTest, PeopleCommandItFromAMachineThatHasNoPartInIt) {
  prepare(3, {"job.epochs=100000"});
  ASSERT_EQ(on(0, {"certs", "create", "certs"}).exit_code, 0);
  const auto give = [&](const std::string& role, int host) {
    std::filesystem::copy((*hosts_)[0].file("/tmp/work/certs/" + role), (*hosts_)[host].file("/tmp/work/" + role));
  };
  give("coordinator", 0);
  give("agent", 1);
  give("user", 2);
  give("reader", 2);
  std::vector<std::string> words{MUSTER_PROGRAM};
  const std::vector<std::string> arguments = train_arguments("1", {"parallel.hosts=2"});
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--listen", address(), "--certs", "coordinator"});
  HostProgram first = (*hosts_)[0].start(words, slowly());
  HostProgram second = (*hosts_)[1].start({MUSTER_PROGRAM, "agent", "--join", address(), "--certs", "agent"}, slowly());
  wait_for(0, 2);

  const auto far = [&](std::vector<std::string> command, const std::string& role) {
    command.insert(command.end(), {"--at", address(), "--certs", role});
    return on(2, command);
  };
  const Finished looked = far({"status", "--json"}, "reader");
  ASSERT_EQ(looked.exit_code, 0) << looked.err;
  EXPECT_EQ(rows(looked.out).back()["hosts"].size(), 2U);
  EXPECT_THAT(far({"status"}, "reader").out, HasSubstr((*hosts_)[1].name()));
  EXPECT_THAT(far({"stop", "far"}, "reader").err, HasSubstr("Stop is not for the role \"reader\""));
  const Finished other = far({"stop", "near"}, "user");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("the job there is far"));
  EXPECT_THAT(on(2, {"stop", "far", "--at", address()}).err, HasSubstr("--certs"));
  EXPECT_EQ(far({"set", "far", "job.seed=3"}, "user").exit_code, 2);
  EXPECT_EQ(far({"scale", "far", "1"}, "user").exit_code, 0);
  const Finished set = far({"set", "far", "optimizer.lr=0.01"}, "user");
  ASSERT_EQ(set.exit_code, 0) << set.err;
  EXPECT_TRUE(eventually([&] { return rows(changes_of(0)).size() == 1 && changes_of(0) == changes_of(1); }))
      << first.err() << second.err();
  const Finished stop = far({"stop", "far"}, "user");
  EXPECT_EQ(stop.exit_code, 0) << stop.err;
  for (HostProgram* program : {&first, &second})
    EXPECT_EQ(program->wait().exit_code, 128 + SIGTERM) << program->err();
  EXPECT_THAT(on(0, {"logs", "far", "--supervisor"}).out, AllOf(HasSubstr("audit: "), HasSubstr("Stop")));
}

TEST_F(HostsCommandsTest, AJobWhoseCoordinatorIsKilledIsTakenOverOnItsHost) {
  prepare(2, {"job.epochs=60"});
  const Json expected = alone();
  HostProgram first = train("2");
  HostProgram second = agent(1, address());
  wait_for(0, 2);
  first.signal(SIGKILL);
  first.wait();
  HostProgram next = (*hosts_)[0].start({MUSTER_PROGRAM, "attach", "far", "--insecure"});
  wait_for(1, 2, 2);
  Finished end = next.wait(kLongest);
  end.out = first.out();  // workers print where they did
  expect_same_end(end, expected, "another coordinator");
  EXPECT_EQ(second.wait().exit_code, 0) << second.err();
}

TEST_F(HostsCommandsTest, AJobWhoseCoordinatorsHostIsLostIsTakenOverOnAnotherHost) {
  prepare(3, {"job.epochs=60"});
  const Json expected = alone();
  HostProgram first = train("3");
  const std::string join = address(0) + "," + address(1);
  HostProgram second = agent(1, join);
  HostProgram third = agent(2, join);
  wait_for(1, 3);
  const Finished early = on(1, {"attach", "far", "--listen", address(1), "--insecure"});
  EXPECT_EQ(early.exit_code, 2);
  EXPECT_THAT(early.err, HasSubstr("its coordinator answers"));
  (*hosts_)[0].kill_all();
  wait_until_alone(1);
  const Finished where = on(1, {"attach", "far", "--insecure"});
  EXPECT_EQ(where.exit_code, 2);
  EXPECT_THAT(where.err, HasSubstr("--listen"));
  // Nobody is ended by words that do not count.
  const std::vector<pid_t> living = (*hosts_)[1].processes();
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"attach", "far", "--listen", address(1), "--certs", "/nowhere"},
        {"attach", "far", "--listen", address(1)},
        {"attach", "far", "--listen", address(2), "--insecure"}})
    EXPECT_EQ(on(1, wrong).exit_code, wrong.back() == "--insecure" ? 1 : 2);
  EXPECT_THAT((*hosts_)[1].processes(), ::testing::UnorderedElementsAreArray(living));
  HostProgram next = attach(1);
  wait_for(2, 2, 2);
  const Finished end = next.wait(kLongest);
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(third.wait().exit_code, 0) << third.err();
  EXPECT_THAT(third.err(), HasSubstr("(term 2)"));
  for (const auto& entry : std::filesystem::directory_iterator((*hosts_)[1].file("/tmp")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("muster-"))
        << "left by the agent that was ended: " << entry;
  const Json made = end_of(1).is_null() ? end_of(2) : end_of(1);
  EXPECT_EQ(made.at("weights"), expected.at("weights")) << end.err;
  EXPECT_EQ(made.at("step"), expected.at("step"));
}

TEST_F(HostsCommandsTest, AHostThatWasGivenUpDoesNotOverthrowACoordinatorThatAnswers) {
  prepare(3, {"job.epochs=100000"});
  HostProgram first = train("2");
  HostProgram second = agent(1, address());
  wait_for(1, 2);
  HostProgram third = agent(2, address());
  (*hosts_)[1].freeze();
  wait_for(2, 2);  // the third has its place
  (*hosts_)[1].thaw();
  wait_until_alone(1);
  const Finished refused = on(1, {"attach", "far", "--listen", address(1), "--insecure"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("its coordinator answers"));
  wait_for(2, 2);
  on(2, {"stop", "far"});
  EXPECT_EQ(first.wait().exit_code, 128 + SIGTERM) << first.err();
}

TEST_F(HostsCommandsTest, ACoordinatorThatWakesUpAfterAnotherTookOverEnds) {
  prepare(3, {"job.epochs=100"});
  const Json expected = alone();
  HostProgram first = train("3");
  const std::string join = address(0) + "," + address(1);
  HostProgram second = agent(1, join);
  HostProgram third = agent(2, join);
  wait_for(1, 3);
  (*hosts_)[0].freeze();
  wait_until_alone(1);
  HostProgram next = attach(1);
  wait_for(2, 2, 2);
  (*hosts_)[0].thaw();
  const Finished overtaken = first.wait(kLongest);
  EXPECT_EQ(overtaken.exit_code, 1) << overtaken.err;
  EXPECT_THAT(overtaken.err, HasSubstr("another coordinator has taken over this job (term 2)"));
  EXPECT_TRUE(end_of(0).is_null());
  const Finished end = next.wait(kLongest);
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(third.wait().exit_code, 0) << third.err();
  const Json made = end_of(1).is_null() ? end_of(2) : end_of(1);
  EXPECT_EQ(made.at("weights"), expected.at("weights")) << end.err;
}

}  // namespace
}  // namespace muster::testing
