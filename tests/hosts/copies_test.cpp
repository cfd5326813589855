// The host that leads a job is lost with all that is on its disk, and another one goes on with its own copy of the run:
// checkpoints, ledger and metrics. The weights are those of one worker on one host, and what is left proves that every
// sample was used exactly once.
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
#include <signal.h>

#include "support/eventually.h"
#include "support/hosts.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kPort = "7400";
constexpr const char* kRuns = "/tmp/work/runs";
constexpr std::chrono::seconds kLongest{300};
constexpr std::uint64_t kEverySteps = 5;

class HostsCopiesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::impossible(); !why.empty()) GTEST_SKIP() << why;
    hosts_.emplace(3);
  }
  // The first host has the job file. What one worker on one host makes of it is in expected_.
  void prepare(std::vector<std::string> more) {
    more.insert(more.end(), {"parallel.interface=\"eth0\"", "parallel.host_seconds=2.0", "job.ledger=true"});
    spill((*hosts_)[0].file("/tmp/work/job.toml"), stateful_job("far", more));
    const Finished end = on(0, {"train", "job.toml", "--json", "--set", "parallel.hosts=1", "--set",
                                "parallel.workers=1", "--set", "job.runs=undisturbed"});
    ASSERT_EQ(end.exit_code, 0) << end.err;
    expected_ = rows(end.out).back();
  }
  std::string address(int host = 0) { return (*hosts_)[host].address() + ":" + kPort; }
  // Each commit takes a while, so that there is time for something to happen.
  static std::vector<std::string> slowly() { return {"MUSTER_FAILPOINTS=arena.commit.before_arrival=delay=25"}; }
  HostProgram start(int host, std::vector<std::string> words) {
    words.insert(words.begin(), MUSTER_PROGRAM);
    words.emplace_back("--insecure");
    return (*hosts_)[host].start(words, slowly());
  }
  HostProgram train(const std::string& workers) {
    std::vector<std::string> words = train_arguments(workers, {"parallel.hosts=3"});
    words.insert(words.end(), {"--listen", address()});
    return start(0, words);
  }
  HostProgram agent(int host, const std::string& join) {
    return start(host, {"agent", "--join", join, "--wait", "200"});
  }
  Finished on(int host, std::vector<std::string> words) {
    words.insert(words.begin(), MUSTER_PROGRAM);
    return (*hosts_)[host].run(std::move(words), kLongest);
  }
  Json status(int host) {
    const Finished result = on(host, {"status", "far", "--json"});
    return result.exit_code == 0 && !result.out.empty() ? rows(result.out).back() : Json();
  }
  // Once the first host leads, and both others are known to hold a checkpoint of a step from `step` on.
  void wait_for_copies(std::uint64_t step) {
    Json now;
    const auto look = [&] {
      now = status(0);
      if (!now.is_object() || !now.contains("hosts") || now["hosts"].size() != 3) return false;
      for (const Json& host : now["hosts"]) {
        if (host["checkpoint"].is_null() || host["checkpoint"] < step) return false;
        if (host["folder"] != (host["number"] == 1 ? "leads" : "copy")) return false;
      }
      return true;
    };
    ASSERT_TRUE(eventually(look, Deadline::after(kLongest))) << now;
  }
  // Its processes, and what is on its disk.
  void lose(int host) {
    (*hosts_)[host].kill_all();
    std::filesystem::remove_all((*hosts_)[host].file(kRuns));
  }
  std::filesystem::path run_of(int host) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator((*hosts_)[host].file(kRuns), none))
      return entry.path();
    return {};
  }
  // Of the run's metrics on that host: the epochs that were validated, and the row of its end.
  struct Told {
    std::set<std::uint64_t> epochs;
    Json end;
  };
  Told told(int host) {
    Told told;
    for (const Json& row : rows(slurp(run_of(host) / "metrics.jsonl"))) {
      if (row.at("event") == "validation") told.epochs.insert(row.at("epoch").get<std::uint64_t>());
      if (row.at("event") == "finished") told.end = row;
    }
    return told;
  }
  // The whole run, from nothing but what is on that host.
  void expect_whole_run(int host, std::uint64_t epochs) {
    const Told seen = told(host);
    ASSERT_TRUE(seen.end.is_object()) << "host " << host;
    EXPECT_EQ(seen.end.at("weights"), expected_.at("weights"));
    EXPECT_EQ(seen.end.at("step"), expected_.at("step"));
    EXPECT_EQ(seen.end.at("best_step"), expected_.at("best_step"));
    EXPECT_EQ(seen.epochs.size(), epochs) << "validations of all epochs";
    const Finished ledger = on(host, {"ledger", "check", "far"});
    EXPECT_EQ(ledger.exit_code, 0) << ledger.out << ledger.err;
    EXPECT_THAT(ledger.out, HasSubstr(fmt::format("Exact: {} whole epoch", epochs)));
    for (const char* part : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string name = fmt::format("step-{:012}", expected_.at("step").get<std::uint64_t>());
      const std::filesystem::path copy = run_of(host) / "checkpoints" / name / part;
      ASSERT_TRUE(std::filesystem::exists(copy)) << copy;
      EXPECT_TRUE(slurp(copy) == undisturbed(part)) << part << " on host " << host;
    }
  }
  std::string undisturbed(const std::string& part) {
    return slurp(
        (*hosts_)[0].file(std::filesystem::path("/tmp/work") / expected_.at("checkpoint").get<std::string>() / part));
  }

  std::optional<Hosts> hosts_;
  Json expected_;
};

TEST_F(HostsCopiesTest, WhenTheLeadingHostIsLostAnotherOneResumesFromItsOwnCopy) {
  prepare({"job.epochs=20", "job.lanes=8", fmt::format("checkpoint.every_steps={}", kEverySteps)});
  HostProgram first = train("2");
  HostProgram second = agent(1, address());
  HostProgram third = agent(2, address());
  wait_for_copies(2 * kEverySteps);
  EXPECT_THAT(on(0, {"logs", "far", "--supervisor"}).out,
              AllOf(HasSubstr(fmt::format("host {} (1) leads", (*hosts_)[0].name())),
                    HasSubstr("keeps a copy of the run on its own disk"), HasSubstr("has the checkpoint of step")));
  EXPECT_THAT(on(1, {"status", "far"}).out, AllOf(HasSubstr("RUN FOLDER"), HasSubstr("leads"), HasSubstr("copy")));
  // The others are ended a moment later, so that nothing is left but files.
  lose(0);
  for (const int host : {1, 2})
    (*hosts_)[host].kill_all();
  const std::filesystem::path job = std::filesystem::path(kRuns) / run_of(1).filename() / "job.toml";
  HostProgram next =
      start(1, {"train", job.string(), "--json", "--resume", "--set", "parallel.hosts=2", "--listen", address(1)});
  HostProgram other = agent(2, address(1));
  const Finished end = next.wait(kLongest);
  expect_same_end(end, expected_, "from the copy of another host");
  const Finished end_there = other.wait(kLongest);
  EXPECT_EQ(end_there.exit_code, 0) << end_there.err;
  EXPECT_THAT(slurp(run_of(1) / "metrics.jsonl"), HasSubstr("\"resumed\""));
  expect_whole_run(1, 20);
  expect_whole_run(2, 20);
}

// Nothing of it is lost, not even what was not in a checkpoint: the others train on.
TEST_F(HostsCopiesTest, WhenTheLeadingHostIsLostTheOthersGoOnAndCanProveTheWholeRun) {
  prepare({"job.epochs=30", "checkpoint.every_steps=\"auto\""});
  HostProgram first = train("1");
  const std::string join = address(0) + "," + address(1);
  HostProgram second = agent(1, join);
  HostProgram third = agent(2, join);
  wait_for_copies(1);
  lose(0);
  ASSERT_TRUE(eventually(
      [&] {
        const Json now = status(1);
        return now.is_object() && !now["coordinator"]["live"].get<bool>();
      },
      Deadline::after(kLongest)));
  HostProgram next = start(1, {"attach", "far", "--listen", address(1)});
  const Finished end = next.wait(kLongest);
  EXPECT_EQ(end.exit_code, 0) << end.err;
  const Finished end_there = third.wait(kLongest);
  EXPECT_EQ(end_there.exit_code, 0) << end_there.err;
  expect_whole_run(1, 30);
  expect_whole_run(2, 30);
}

}  // namespace
}  // namespace muster::testing
