// Data of jobs of several hosts, on loopback: hosts whose files differ are told apart before they train; hosts that
// have none get it from those that have. All see one disk here: a host has no data because it was moved away before the
// host came, and the others have their files open. tests/hosts/data_test.cpp has hosts with disks of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

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

// As the coordinator says it; empty: not yet.
std::string address_in(const std::string& text) {
  const std::size_t place = text.find("--join ");
  if (place == std::string::npos || text.find('\n', place) == std::string::npos) return {};
  return text.substr(place + 7, text.find('\n', place) - place - 7);
}

std::string table(int first) {
  std::string text = "x,y,class\n";
  for (int row = first; row < first + 300; ++row)
    text += fmt::format("{},{},{}\n", row % 17, row % 5, row % 2 == 0 ? "even" : "odd");
  return text;
}

class HostsDataTest : public ::testing::Test {
 protected:
  HostsDataTest() {
    for (const char* name : {"first", "second"})
      std::filesystem::create_directory(folder_ / name);
    spill(folder_ / "table.csv", table(0));
    spill(folder_ / "first" / "job.toml",
          small_job("table", {"data.source=\"csv\"", "data.shape=", "data.samples=", "data.test_samples=",
                              fmt::format("data.path=\"{}\"", (folder_ / "table.csv").string())}));
  }
  Program train(const std::string& hosts, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"parallel.hosts=" + hosts, "--listen=127.0.0.1:0"};
    all.insert(all.end(), more.begin(), more.end());
    return Program(folder_ / "first", train_arguments(1, all));
  }
  Program agent(const Program& coordinator) {
    EXPECT_TRUE(eventually([&] { return !address_in(coordinator.err()).empty(); })) << coordinator.err();
    return Program(folder_ / "second", {"agent", "--join", address_in(coordinator.err())});
  }
  // The first host's worker has looked at its data: its run is there.
  bool first_has_looked() const {
    std::error_code none;
    for (const auto& run : std::filesystem::directory_iterator(folder_ / "first" / "runs", none))
      if (std::filesystem::exists(run.path() / "inputs.json")) return true;
    return false;
  }

  TemporaryFolder folder_;
};

TEST_F(HostsDataTest, HostsWithTheSameFilesGiveTheBitsOfOne) {
  const Finished alone = run_program(folder_ / "first", train_arguments(1, {"job.runs=\"alone\""}));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  Program coordinator = train("2");
  Program second = agent(coordinator);
  testing::expect_same_end(coordinator.wait(), rows(alone.out).back(), "two hosts");
  EXPECT_EQ(second.wait().exit_code, 0) << second.err();
}

TEST_F(HostsDataTest, OtherFilesAtTheStartEndTheJobAsAMistake) {
  Program coordinator = train("2");
  ASSERT_TRUE(eventually([&] { return first_has_looked(); })) << coordinator.err();
  spill(folder_ / "table.csv", table(1));
  Program second = agent(coordinator);
  const Finished end = coordinator.wait();
  EXPECT_EQ(end.exit_code, 2) << end.err;
  EXPECT_THAT(end.err, AllOf(HasSubstr("the hosts do not read the same: data.path"), HasSubstr("on host 1 ("),
                             HasSubstr("on host 2 ("), HasSubstr("table.csv"), HasSubstr("Bring the same files")));
  const Finished other = second.wait();
  EXPECT_EQ(other.exit_code, 2) << other.err;
}

TEST_F(HostsDataTest, AHostWithOtherFilesThatComesLaterEndsAlone) {
  Program coordinator = train("\"1:2\"", {"job.epochs=100000"});
  ASSERT_TRUE(eventually([&] { return coordinator.out().find("\"step\"") != std::string::npos; }))
      << coordinator.out() << coordinator.err();
  spill(folder_ / "table.csv", table(1));
  Program second = agent(coordinator);
  const Finished other = second.wait();
  EXPECT_EQ(other.exit_code, 2) << other.err;
  EXPECT_THAT(other.err, AllOf(HasSubstr("the hosts do not read the same: data.path"), HasSubstr("on host 1 ("),
                               HasSubstr("on host 2 ("), HasSubstr("table.csv")));
  EXPECT_THAT(coordinator.err(), HasSubstr("(2) has ended"));
  coordinator.signal(SIGTERM);
  EXPECT_EQ(coordinator.wait().exit_code, 128 + SIGTERM) << coordinator.err();
}

class HostsFetchTest : public HostsDataTest {
 protected:
  HostsFetchTest() {
    spill(folder_ / "source.toml", small_job("source"));
    const Finished packed =
        run_program(folder_.path(), {"data", "pack", "source.toml", (folder_ / "packed").string(), "--shards", "3"});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    write_job({});
  }
  void write_job(std::vector<std::string> more) {
    more.insert(more.end(), {"data.source=\"packed\"", "data.shape=", "data.samples=", "data.test_samples=",
                             "data.access=\"fetch\"", "data.cache_mb=64", "job.ledger=true",
                             fmt::format("data.path=\"{}\"", (folder_ / "packed").string())});
    spill(folder_ / "first" / "job.toml", small_job("table", more));
  }
  Json alone() {
    const Finished end = run_program(folder_ / "first", train_arguments(1, {"job.runs=\"alone\""}));
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return rows(end.out).back();
  }
  void hide_data() { std::filesystem::rename(folder_ / "packed", folder_ / "hidden"); }
  // The parts of all hosts in one place.
  void expect_exact_ledger() {
    std::error_code none;
    for (const auto& run : std::filesystem::directory_iterator(folder_ / "second" / "runs", none))
      if (std::filesystem::exists(run.path() / "ledger"))
        std::filesystem::copy(run.path() / "ledger", folder_ / "first" / "runs" / run.path().filename() / "ledger",
                              std::filesystem::copy_options::recursive);
    const Finished ledger = run_program(folder_ / "first", {"ledger", "check", "table"});
    EXPECT_EQ(ledger.exit_code, 0) << ledger.out << ledger.err;
  }
};

TEST_F(HostsFetchTest, AHostWithoutTheDataGetsItAndTheBitsAreThoseOfOne) {
  const Json expected = alone();
  Program coordinator = train("2");
  ASSERT_TRUE(eventually([&] { return first_has_looked(); })) << coordinator.err();
  hide_data();
  Program second = agent(coordinator);
  testing::expect_same_end(coordinator.wait(), expected, "one host has the data, one has not");
  const Finished other = second.wait();
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("fetching data from host"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "second" / "muster-cache"));
  expect_exact_ledger();
}

TEST_F(HostsFetchTest, ALaneOfItsOwnForEveryHostWorksTheSameWay) {
  write_job({"data.placement=\"local\"", "data.partition=\"random\"", "job.epochs=3"});
  const Json expected = alone();
  Program coordinator = train("2");
  ASSERT_TRUE(eventually([&] { return first_has_looked(); })) << coordinator.err();
  hide_data();
  Program second = agent(coordinator);
  testing::expect_same_end(coordinator.wait(), expected, "local placement");
  EXPECT_EQ(second.wait().exit_code, 0) << second.err();
  expect_exact_ledger();
}

TEST_F(HostsFetchTest, OtherSourcesThanShardsAreRefusedWithWhatToDo) {
  spill(folder_ / "first" / "job.toml", small_job("table", {"data.access=\"fetch\""}));
  const Finished refused = run_program(folder_ / "first", train_arguments(1));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("data.access"), HasSubstr("muster data pack")));
}

}  // namespace
}  // namespace muster
