// The real program trains on two hosts: each with a store, an arena, a disk and worker processes of its own. The test
// is both agents and the coordinator. The result is that of one worker on one host, also when the host that leads is
// lost.
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/comm/arena_address.h"
#include "muster/comm/region.h"
#include "muster/comm/roster.h"
#include "muster/comm/store.h"
#include "muster/control/job_generation.h"
#include "support/eventually.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using testing::Finished;
using testing::Program;

// Variables of the programs that are started meanwhile.
class Told {
 public:
  explicit Told(const std::map<std::string, std::string>& variables) : variables_(variables) {
    for (const auto& [name, value] : variables_)
      ::setenv(name.c_str(), value.c_str(), 1);
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  ~Told() {
    for (const auto& entry : variables_)
      ::unsetenv(entry.first.c_str());
  }

 private:
  const std::map<std::string, std::string> variables_;
};

class TrainingHost {
 public:
  TrainingHost(const std::filesystem::path& all, std::uint64_t number, int seats, const std::string& failpoints = {})
      : number_(number), folder_(all / fmt::format("host-{}", number)), seats_(seats) {
    std::filesystem::create_directories(folder_);
    store_ = comm::make_file_store(folder_ / "store");
    for (int seat = 0; seat < seats; ++seat) {
      const std::filesystem::path own = folder_ / fmt::format("seat-{}", seat);
      std::filesystem::create_directories(own);
      testing::spill(own / "job.toml", testing::slurp(all / "job.toml"));
      std::map<std::string, std::string> told{{"MUSTER_RANK", std::to_string(seat)},
                                              {"MUSTER_SIZE", std::to_string(seats)},
                                              {"MUSTER_STORE", (folder_ / "store").string()},
                                              {"MUSTER_ARENA", seat == 0 ? "found" : "join"},
                                              {"MUSTER_CLUSTER", "file:" + (all / "cluster").string()},
                                              {"MUSTER_HOST", std::to_string(number)},
                                              {"MUSTER_INTERFACE", "lo"}};
      if (!failpoints.empty()) told["MUSTER_FAILPOINTS"] = failpoints;
      const Told environment(told);
      // Runs are where a worker is: what another one has it does not see, as on a disk of its own.
      workers_.push_back(std::make_unique<Program>(own, testing::train_arguments(1)));
    }
  }

  // When all workers are ready.
  void find_arena() {
    const auto address = comm::ArenaAddress::parse(store_->get("arena", Deadline::after(120s)));
    auto region = std::make_shared<const comm::SharedRegion>(comm::fetch_region(address.server, Deadline::after(120s)));
    arena_.emplace(comm::Roster::attach(std::move(region), address.nonce, comm::kAnyRank));
    for (int seat = 0; seat < seats_; ++seat)
      EXPECT_TRUE(
          testing::eventually([&] { return arena_->board().occupant(seat).has_value(); }, Deadline::after(120s)));
  }
  void begin(const control::JobGeneration& job) {
    store_->set(control::hosts_key(++generation_), job.to_text());
    arena_->begin_generation(generation_, members());
  }

  std::uint64_t committed() const { return arena_->committed().step; }
  std::uint64_t members() const { return (std::uint64_t{1} << seats_) - 1; }
  std::filesystem::path runs() const { return folder_ / "seat-0" / "runs"; }
  std::vector<std::unique_ptr<Program>>& workers() { return workers_; }
  std::uint64_t number() const { return number_; }

 private:
  const std::uint64_t number_;
  const std::filesystem::path folder_;
  const int seats_;
  std::shared_ptr<comm::Store> store_;
  std::vector<std::unique_ptr<Program>> workers_;
  std::optional<comm::Roster> arena_;
  std::uint64_t generation_ = 0;
};

class HostsTraining : public ::testing::Test {
 protected:
  HostsTraining() {
    testing::spill(folder_ / "job.toml",
                   testing::stateful_job("far", {"checkpoint.every_steps=3", "checkpoint.grace_seconds=12"}));
    const Finished alone =
        testing::run_program(folder_.path(), testing::train_arguments(1, {"job.runs=\"undisturbed\""}));
    EXPECT_EQ(alone.exit_code, 0) << alone.err;
    expected_ = testing::rows(alone.out).back();
  }
  // The job's four lanes: three on the first of two hosts.
  static control::JobGeneration both(const TrainingHost& first, const TrainingHost& second) {
    return {1, 4, {{first.number(), "a", first.members(), 0, 3}, {second.number(), "b", second.members(), 3, 4}}};
  }
  static std::size_t checkpoints(const TrainingHost& host) {
    std::size_t found = 0;
    for (const auto& run : std::filesystem::directory_iterator(host.runs())) {
      if (!std::filesystem::exists(run.path() / "checkpoints")) continue;
      for (const auto& entry : std::filesystem::directory_iterator(run.path() / "checkpoints"))
        found += entry.is_directory() ? 1 : 0;
    }
    return found;
  }

  testing::TemporaryFolder folder_;
  Json expected_;
};

TEST_F(HostsTraining, TwoHostsEndWithTheBitsOfOneWorker) {
  TrainingHost first(folder_.path(), 1, 2);
  TrainingHost second(folder_.path(), 2, 1);
  first.find_arena();
  second.find_arena();
  const control::JobGeneration job = both(first, second);
  first.begin(job);
  second.begin(job);
  testing::expect_same_end(first.workers()[0]->wait(), expected_, "two hosts");
  for (Program* other : {first.workers()[1].get(), second.workers()[0].get()}) {
    const Finished end = other->wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_EQ(end.out, "") << "only the leader speaks";
  }
  EXPECT_GT(checkpoints(first), 0U);
  EXPECT_EQ(checkpoints(second), checkpoints(first)) << "its copy of them";
}

TEST_F(HostsTraining, TheOtherHostGoesOnWhenTheOneThatLeadsIsLost) {
  TrainingHost first(folder_.path(), 1, 1, "arena.commit.before_flip=kill@step=5");
  TrainingHost second(folder_.path(), 2, 1);
  first.find_arena();
  second.find_arena();
  const control::JobGeneration job = both(first, second);
  first.begin(job);
  second.begin(job);
  EXPECT_EQ(first.workers()[0]->wait().signal, SIGKILL);
  second.begin({2, 4, {{2, "b", second.members(), 0, 4}}});
  const Finished end = second.workers()[0]->wait();
  testing::expect_same_end(end, expected_, "the host that led was lost");
  EXPECT_GT(checkpoints(second), 0U) << "the run lives on this host now";
}

// As when a coordinator is lost with its host, and nobody takes over: no generation can begin any more, and after
// parallel.orphan_seconds the agent tells its workers to end.
TEST_F(HostsTraining, WhoIsToldToEndWhileNobodyDecidesLeavesACheckpointOfTheLastStep) {
  TrainingHost first(folder_.path(), 1, 1, "arena.commit.before_flip=kill@step=4");
  TrainingHost second(folder_.path(), 2, 1);
  first.find_arena();
  second.find_arena();
  const control::JobGeneration job = both(first, second);
  first.begin(job);
  second.begin(job);
  EXPECT_EQ(first.workers()[0]->wait().signal, SIGKILL);
  EXPECT_TRUE(testing::eventually([&] { return second.committed() == 5; })) << "steps are counted from 0";
  second.workers()[0]->signal(SIGTERM);
  const Finished end = second.workers()[0]->wait();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM) << end.err;
  EXPECT_THAT(end.err, ::testing::Not(::testing::HasSubstr("without a new checkpoint")));
  EXPECT_EQ(checkpoints(second), 2U) << "the one of step 3, and the last";
}

// The same for one that hears nothing of the loss: the other host is out of reach, and its connections stay.
TEST_F(HostsTraining, WhoIsToldToEndWhileItWaitsForAHostOutOfReachLeavesACheckpoint) {
  TrainingHost first(folder_.path(), 1, 1, "hosts.heads.before_send=stop@step=5");
  TrainingHost second(folder_.path(), 2, 2);
  first.find_arena();
  second.find_arena();
  const control::JobGeneration job = both(first, second);
  first.begin(job);
  second.begin(job);
  EXPECT_TRUE(testing::eventually([&] { return second.committed() == 5; }));
  for (const auto& worker : second.workers())
    worker->signal(SIGTERM);
  for (const auto& worker : second.workers()) {
    const Finished end = worker->wait();
    EXPECT_EQ(end.exit_code, 128 + SIGTERM) << end.err;
  }
  EXPECT_EQ(checkpoints(second), 2U) << "the one of step 3, and the last";
}

}  // namespace
}  // namespace muster
