// Jobs that do not fit into memory are refused before they start, with the numbers and what to change.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/command.h"
#include "support/memory_groups.h"
#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_program;
using testing::train_arguments;

class MemoryPreflight : public ::testing::Test {
 protected:
  MemoryPreflight() { testing::spill(folder_ / "job.toml", testing::stateful_job("large")); }
  bool nothing_written() const { return !std::filesystem::exists(folder_ / "runs"); }

  const testing::TemporaryFolder folder_;
};

// A lane of 20 million samples takes terabytes; no machine that runs these tests has them.
TEST_F(MemoryPreflight, AJobThatCannotFitIsRefusedWithTheNumbers) {
  const std::vector<std::string> large{"job.lanes=1", "data.batch=20000000", "data.samples=20000000"};
  for (const char* const strategy : {"shared_sync", "all_reduce"}) {
    std::vector<std::string> more = large;
    more.push_back(fmt::format("parallel.strategy={}", strategy));
    const Finished refused = run_program(folder_.path(), train_arguments(1, more));
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("of memory on this host"), HasSubstr("activations"), HasSubstr(" GB available"),
                      HasSubstr("data.batch = "), HasSubstr("--ignore-memory")));
    EXPECT_TRUE(nothing_written());
  }
}

TEST_F(MemoryPreflight, OfSeveralWorkersOneSaysIt) {
  const std::vector<std::string> large{"job.lanes=2", "data.batch=20000000", "data.samples=20000000"};
  const Finished refused = run_program(folder_.path(), train_arguments(2, large));
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("of memory on this host"), HasSubstr("the process that starts the workers")));
  EXPECT_EQ(refused.err.find("of memory on this host"), refused.err.rfind("of memory on this host")) << refused.err;
  EXPECT_TRUE(nothing_written());
}

TEST_F(MemoryPreflight, CheckTellsTheEstimate) {
  const Finished plain = run_program(folder_.path(), {"check", "job.toml", "--memory"});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.out, AllOf(HasSubstr("# Memory: about "), HasSubstr("for 1 worker: ")));
  const Finished result = run_program(folder_.path(), {"check", "job.toml", "--memory", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json memory = testing::rows(result.out).at(0).at("memory");
  std::uint64_t sum = 0;
  for (const Json& bytes : memory.at("items"))
    sum += bytes.get<std::uint64_t>();
  EXPECT_EQ(memory.at("total"), sum);
  EXPECT_LE(sum, memory.at("usable").get<std::uint64_t>());
  EXPECT_TRUE(nothing_written());
}

class SmallGroup : public MemoryPreflight {
 protected:
  void SetUp() override {
    const std::string obstacle = muster::testing::make_memory_group(group_);
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
    ASSERT_TRUE(group_->set_limit(std::uint64_t{1} << 30));
  }
  // `muster` with these arguments, inside the group.
  testing::CommandResult muster(const std::vector<std::string>& arguments) {
    std::string script = fmt::format("cd {} && echo $$ > {}/cgroup.procs && exec {}", folder_.path().string(),
                                     group_->group().path.string(), MUSTER_PROGRAM);
    for (const std::string& argument : arguments)
      script += fmt::format(" '{}'", argument);
    return testing::Command({"sh", "-c", script}).wait();
  }
  std::optional<TemporaryMemoryGroup> group_;
};

TEST_F(SmallGroup, AJobThatDoesNotFitIntoItIsRefusedAndASmallerOneTrains) {
  // Two workers with 20,000 pictures of 1x12x12 in a lane: about 3 GB.
  const testing::CommandResult refused =
      muster(train_arguments(2, {"job.lanes=2", "data.batch=40000", "data.samples=40000", "job.steps=1"}));
  EXPECT_EQ(refused.exit_code, 2) << refused.signal << refused.out;
  EXPECT_THAT(refused.out, AllOf(HasSubstr("below the cgroup's limit"), HasSubstr("activations")));
  EXPECT_TRUE(nothing_written());
  EXPECT_EQ(oom_kills(group_->group()), 0U);
  const testing::CommandResult trained = muster(train_arguments(2, {"job.lanes=2", "job.steps=2"}));
  EXPECT_EQ(trained.exit_code, 0) << trained.signal << trained.out;
  EXPECT_THAT(trained.out, Not(HasSubstr("of memory on this host")));
}

}  // namespace
}  // namespace muster
