// Jobs of several hosts as people run them: `muster train --listen` on one, `muster agent --join` on the others, on
// hosts that share nothing but a network, with certificates between them. Whatever happens to a host, the weights are
// those of one worker on one host, and every sample was used exactly once.
//
// These jobs have no end of their own, so that nothing here races against it: each is stopped when what was to happen
// has happened, and held against a run of as many steps that nobody has disturbed.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
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

class HostsTrainingTest : public FarJob {
 protected:
  HostsTrainingTest()
      : FarJob({"parallel.host_seconds=2.5", "job.epochs=1000000", "optimizer.schedule=\"constant\""},
               "arena.commit.before_arrival=delay=20") {}

  // Once so many hosts train and have committed `steps` steps since this was seen first.
  void wait_for(std::size_t hosts, const HostProgram& train, std::uint64_t steps = 1) {
    wait_until(hosts, train, steps, [](const Json&) { return true; });
  }
  // Stops the job. It has the state of one worker that has done as many steps alone, and its ledger is exact.
  void expect_the_end(HostProgram& train) {
    Host& first = (*hosts_)[0];
    stop_and_compare(train, [&](std::uint64_t steps) {
      const Finished alone = first.run(
          {MUSTER_PROGRAM, "train", "job.toml", "--json", "--set", "parallel.hosts=1", "--set", "parallel.workers=1",
           "--set", "job.runs=undisturbed", "--set", "job.ledger=false", "--set", fmt::format("job.steps={}", steps)},
          kLongest);
      EXPECT_EQ(alone.exit_code, 0) << alone.err;
      return alone.exit_code == 0 ? rows(alone.out).back() : Json();
    });
    // Every host has what the others have recorded, those that were lost, too.
    const Finished ledger = first.run({MUSTER_PROGRAM, "ledger", "check", "far"});
    EXPECT_EQ(ledger.exit_code, 0) << ledger.out << ledger.err;
  }
  static std::filesystem::path runs() { return std::filesystem::path(kWork) / "runs"; }
  std::vector<std::filesystem::path> ledgers(int host) {
    std::vector<std::filesystem::path> found;
    std::error_code none;
    for (const auto& run : std::filesystem::directory_iterator((*hosts_)[host].file(runs()), none))
      if (std::filesystem::exists(run.path() / "ledger")) found.push_back(run.path() / "ledger");
    return found;
  }
  // What the workers of a host have written down so far.
  std::map<std::string, std::uintmax_t> written(int host) {
    std::map<std::string, std::uintmax_t> sizes;
    for (const std::filesystem::path& folder : ledgers(host))
      for (const auto& file : std::filesystem::directory_iterator(folder))
        sizes[file.path().filename()] = file.file_size();
    return sizes;
  }
  std::string supervisor_log() {
    std::string text;
    for (const auto& run : std::filesystem::directory_iterator((*hosts_)[0].file(runs())))
      text += slurp(run.path() / "log.supervisor.txt");
    return text;
  }
};

TEST_F(HostsTrainingTest, TwoHostsGiveTheBitsOfOneWorker) {
  prepare(2);
  HostProgram first = train("2", "2");
  HostProgram& second = agent(1);
  wait_for(2, first);
  expect_the_end(first);
  const Finished other = second.wait();
  EXPECT_EQ(other.exit_code, 128 + SIGTERM) << other.err;
  EXPECT_GT((*hosts_)[1].sent_bytes(), 0U);
  EXPECT_THAT(supervisor_log(), AllOf(HasSubstr("audit: took Join by agent host-1 from ipv4:10.93.71."),
                                      Not(HasSubstr("audit: refused"))));
}

TEST_F(HostsTrainingTest, WithoutCertificatesTheyDoTooWhenTheUserSaysSo) {
  prepare(2);
  trust_ = {"--insecure"};
  HostProgram first = train("2", "1");
  agent(1);
  wait_for(2, first);
  expect_the_end(first);
}

TEST_F(HostsTrainingTest, AHostThatIsKilledIsNotMissed) {
  prepare(3);
  HostProgram first = train("3", "1");
  agent(1);
  agent(2);
  wait_for(3, first);
  (*hosts_)[1].kill_all();
  wait_for(2, first);
  expect_the_end(first);
}

// Its workers are left without it. Another agent comes in its place, as the first one came, while the others train.
TEST_F(HostsTrainingTest, AnAgentMayComeLateAndOneThatIsKilledCostsOnlyItsHost) {
  prepare(2);
  HostProgram first = train("\"1:2\"", "1");
  wait_for(1, first);
  HostProgram& second = agent(1);
  wait_for(2, first);
  second.signal(SIGKILL);
  wait_for(1, first);
  agent(1);
  wait_for(2, first);
  expect_the_end(first);
}

// From both sides; then it hears the others and is not heard; then the other way round.
TEST_F(HostsTrainingTest, AHostThatIsCutOffComesBackAndGoesOn) {
  prepare(2);
  HostProgram first = train("\"1:2\"", "1");
  agent(1);
  wait_for(2, first);
  for (const auto& cut : {std::vector{std::pair{1, 0}, {0, 1}}, {{1, 0}}, {{0, 1}}}) {
    for (const auto& [from, to] : cut)
      hosts_->cut_one_way(from, to);
    wait_for(1, first);
    hosts_->heal();
    wait_for(2, first);
  }
  expect_the_end(first);
}

TEST_F(HostsTrainingTest, OfTwoPartsOnlyTheOneWithTheCoordinatorGoesOn) {
  prepare(3);
  HostProgram first = train("\"1:3\"", "1");
  agent(1);
  agent(2);
  wait_for(3, first);
  hosts_->cut(2);
  wait_for(2, first);
  const std::map<std::string, std::uintmax_t> before = written(2);
  EXPECT_FALSE(before.empty());
  wait_for(2, first, 20);
  EXPECT_EQ(written(2), before) << "it goes on by itself";
  hosts_->heal();
  wait_for(3, first);
  expect_the_end(first);
}

// The coordinator hears both, and a step needs all hosts: one of the two has to go, and may come back when they hear
// each other again.
TEST_F(HostsTrainingTest, OfTwoThatDoNotHearEachOtherOneIsGivenUp) {
  prepare(3);
  HostProgram first = train("\"1:3\"", "1");
  agent(1);
  wait_for(2, first);
  agent(2);
  wait_for(3, first);
  for (const auto& cut : {std::vector{std::pair{1, 2}, {2, 1}}, {{1, 2}}}) {
    for (const auto& [from, to] : cut)
      hosts_->cut_one_way(from, to);
    const auto two_train = [&] {
      const Json now = status();
      if (!now.is_object() || !now.contains("hosts")) return false;
      return std::ranges::count_if(now.at("hosts"), [](const Json& host) { return host.at("workers") > 0; }) == 2;
    };
    ASSERT_TRUE(eventually(two_train, Deadline::after(kLongest))) << status() << told(first);
    const std::uint64_t step = status().at("step");
    ASSERT_TRUE(eventually([&] { return status().at("step") >= step + 10; }, Deadline::after(kLongest)))
        << "the other two wait\n"
        << told(first);
    hosts_->heal();
    wait_for(3, first);
  }
  EXPECT_THAT(first.err(), HasSubstr("do not hear each other"));
  expect_the_end(first);
}

TEST_F(HostsTrainingTest, AHostThatStandsStillForTooLongIsGivenUpAndComesBack) {
  prepare(2);
  HostProgram first = train("\"1:2\"", "1");
  agent(1);
  wait_for(2, first);
  (*hosts_)[1].freeze();
  wait_for(1, first);
  (*hosts_)[1].thaw();
  wait_for(2, first);
  expect_the_end(first);
}

TEST_F(HostsTrainingTest, AnAddressThatOthersCanReachNeedsProtectionOrAWordOnBothSides) {
  prepare(2);
  for (const Finished& refused :
       {(*hosts_)[0].run({MUSTER_PROGRAM, "train", "job.toml", "--set", "parallel.hosts=2", "--listen", address()}),
        (*hosts_)[1].run({MUSTER_PROGRAM, "agent", "--join", address()})}) {
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("--certs"), HasSubstr("muster certs create"), HasSubstr("--insecure")));
  }
}

}  // namespace
}  // namespace muster::testing
