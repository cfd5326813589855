// Strategies with fixed workers on two hosts, as a user starts them: a coordinator and an agent, both on this machine.
// The result is that of one host with as many workers, bit by bit; a loss ends the job with its reason, and --resume
// goes on. On hosts that share nothing: tests/hosts/strategies_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::eventually;
using testing::Failpoints;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;
using testing::train_arguments;
using namespace std::chrono_literals;

constexpr auto kLongest = 300s;

const std::vector<std::string> kAllReduce{"parallel.strategy=\"all_reduce\""};
const std::vector<std::string> kLocalSgd{"parallel.strategy=\"local_sgd\"", "parallel.period=3",
                                         "parallel.outer_momentum=0.5", "parallel.outer_lr=0.7"};

class FixedHosts : public ::testing::Test {
 protected:
  // The job, with a checkpoint of every third step; and what one host makes of it with `workers`.
  void prepare(const std::vector<std::string>& strategy, int workers) {
    std::vector<std::string> keys{"checkpoint.every_steps=3"};
    keys.insert(keys.end(), strategy.begin(), strategy.end());
    testing::spill(folder_ / "job.toml", testing::stateful_job("fixed", keys));
    std::filesystem::create_directory(folder_ / "agent");
    const Finished one = run_program(folder_.path(), train_arguments(workers, {"job.runs=\"undisturbed\""}));
    ASSERT_EQ(one.exit_code, 0) << one.err;
    expected_ = rows(one.out).back();
  }
  // Starts it on the first of two hosts, and gives the address at which the other one joins.
  std::string lead(int workers, std::vector<std::string> more = {}) {
    // Nobody is silent here, however slow the machine is.
    more.insert(more.end(), {"parallel.hosts=2", "parallel.host_seconds=60", "parallel.liveness_seconds=60",
                             "--listen=127.0.0.1:0"});
    std::filesystem::remove(folder_ / "stderr");  // of the one before, with another address
    first_.emplace(folder_.path(), train_arguments(workers, more));
    std::string address;
    EXPECT_TRUE(eventually(
        [&] {
          const std::string text = first_->err();
          const std::size_t place = text.find("--join ");
          const std::size_t end = text.find('\n', place);
          if (place == std::string::npos || end == std::string::npos) return false;
          address = text.substr(place + 7, end - place - 7);
          return true;
        },
        Deadline::after(kLongest)))
        << first_->err();
    return address;
  }
  std::vector<std::string> agent(const std::string& address) {
    return {"agent", "--join", address, "--name", "second"};
  }

  testing::TemporaryFolder folder_;
  std::optional<Program> first_;
  Json expected_;
};

TEST_F(FixedHosts, AllReduceGivesTheBitsOfOneHostWithAsManyWorkers) {
  prepare(kAllReduce, 4);
  Program second(folder_ / "agent", agent(lead(2)));
  testing::expect_same_end(first_->wait(kLongest), expected_, "two hosts of two workers");
  const Finished other = second.wait(kLongest);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.out, "") << "only the leader speaks";
}

TEST_F(FixedHosts, LocalSgdWithOuterMomentumGivesTheBitsOfOneHostWithAsManyWorkers) {
  prepare(kLocalSgd, 2);
  Program second(folder_ / "agent", agent(lead(1)));
  testing::expect_same_end(first_->wait(kLongest), expected_, "two hosts of one worker");
  const Finished other = second.wait(kLongest);
  EXPECT_EQ(other.exit_code, 0) << other.err;
}

TEST_F(FixedHosts, ALostWorkerEndsTheJobWithTheReasonAndResumeGoesOn) {
  for (const std::vector<std::string>& strategy : {kAllReduce, kLocalSgd}) {
    prepare(strategy, 2);
    {
      const std::string address = lead(1);
      const Failpoints dies("replica.commit.before=kill@step=7");
      Program second(folder_ / "agent", agent(address));
      const Finished led = first_->wait(kLongest);
      EXPECT_EQ(led.exit_code, 1) << led.err;
      EXPECT_THAT(led.err,
                  AllOf(HasSubstr("host second (2) has ended"), HasSubstr("killed by signal 9"),
                        HasSubstr("the job ends, because its workers cannot be replaced"), HasSubstr("--resume")));
      const Finished other = second.wait(kLongest);
      EXPECT_EQ(other.exit_code, 1) << other.err;
      EXPECT_THAT(other.err, HasSubstr("killed by signal 9"));
    }
    Program again(folder_ / "agent", agent(lead(1, {"--resume"})));
    const Finished resumed = first_->wait(kLongest);
    testing::expect_same_end(resumed, expected_, "resumed");
    EXPECT_GE(rows(resumed.out).front().at("first_step"), 3) << "the last checkpoint may have been lost, not both";
    EXPECT_EQ(again.wait(kLongest).exit_code, 0);
    std::filesystem::remove_all(folder_ / "runs");
    std::filesystem::remove_all(folder_ / "agent");
    std::filesystem::remove_all(folder_ / "undisturbed");
  }
}

}  // namespace
}  // namespace muster
