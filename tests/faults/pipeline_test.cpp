// Stages that are lost: those who are left arrange themselves anew and do the step again, others take their place, and
// the result is the same.
#include <signal.h>

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::expect_same_end;
using testing::Finished;
using ::testing::HasSubstr;
using testing::Program;
using testing::rows;
using testing::run_program;

class LostStages : public ::testing::Test {
 protected:
  LostStages() {
    testing::spill(folder_ / "job.toml",
                   testing::small_job("stages", {"data.shape=[1, 12, 12]", "data.samples=150", "data.batch=40",
                                                 "model.name=\"resnet20\"", "model.hidden=", "job.epochs=3",
                                                 "checkpoint.every_steps=3"}));
  }

  static std::vector<std::string> arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"train", "job.toml", "--json"};
    for (const std::string& argument : more) {
      if (!argument.starts_with("--")) all.emplace_back("--set");
      all.push_back(argument);
    }
    return all;
  }

  Json undisturbed() {
    const Finished result = run_program(folder_.path(), arguments({"job.runs=undisturbed"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return rows(result.out).back();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(LostStages, ADeathInTheMiddleOfAScheduleChangesNothing) {
  const Json expected = undisturbed();
  // The last stage between two of its actions, then the first one, which has claimed the lanes.
  const testing::Failpoints armed(
      "pipeline.action=kill@rank=1,step=3,call=3,attempt=0;pipeline.action=kill@rank=0,step=6,call=4,attempt=0");
  const Finished result = run_program(folder_.path(), arguments({"parallel.mesh={pipeline=2}"}));
  for (const int rank : {0, 1})
    EXPECT_THAT(result.err, HasSubstr(fmt::format("worker {} ", rank))) << "it was not killed";
  expect_same_end(result, expected, "two stages");
}

TEST_F(LostStages, OneOfFourIsLostAndOneHangs) {
  const Json expected = undisturbed();
  const testing::Failpoints armed(
      "pipeline.action=kill@rank=2,step=2,call=1,attempt=0;pipeline.action=stop@rank=1,step=7,call=2,attempt=0");
  const Finished result = run_program(folder_.path(), arguments({"parallel.mesh={data=2, pipeline=2}"}));
  for (const int rank : {1, 2})
    EXPECT_THAT(result.err, HasSubstr(fmt::format("worker {} ", rank))) << "it was not lost";
  expect_same_end(result, expected, "two rows of two stages");
}

// Sums are divided among all members of a team or not made at all, so those who are left wait for another one.
TEST_F(LostStages, AMemberOfATeamIsLostAndOneHangs) {
  const std::vector<std::string> teams{"model.name=wrn-10-1", "model.dropout=0.2", "job.epochs=2"};
  const auto train = [&](const std::string& runs, const std::string& mesh) {
    std::vector<std::string> more = teams;
    more.insert(more.end(), {"job.runs=" + runs, "parallel.mesh=" + mesh});
    return run_program(folder_.path(), arguments(more));
  };
  const Finished undisturbed = train("undisturbed", "{tensor=2}");
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.err;
  const Json expected = rows(undisturbed.out).back();
  {
    const testing::Failpoints armed(
        "pipeline.action=kill@rank=1,step=2,call=4,attempt=0;pipeline.action=stop@rank=0,step=4,call=2,attempt=0");
    const Finished result = train("one", "{tensor=2}");
    for (const int rank : {0, 1})
      EXPECT_THAT(result.err, HasSubstr(fmt::format("worker {} ", rank))) << "it was not lost";
    expect_same_end(result, expected, "one team");
  }
  const testing::Failpoints armed("pipeline.action=kill@rank=3,step=2,call=3,attempt=0");
  const Finished result = train("two", "{data=2, tensor=2}");
  EXPECT_THAT(result.err, HasSubstr("worker 3 ")) << "it was not lost";
  expect_same_end(result, expected, "two teams");
}

TEST_F(LostStages, AllOfThemGoOnFromTheNewestCheckpoint) {
  const Json expected = undisturbed();
  {
    const testing::Failpoints armed("pipeline.action=stop@rank=1,step=8,call=1");
    Program program(folder_.path(), arguments({"parallel.mesh={pipeline=2}", "parallel.liveness_seconds=600"}));
    EXPECT_NE(testing::wait_until_one_stops(program), 0);
    testing::kill_everything(program);
  }
  const Finished result = run_program(folder_.path(), arguments({"parallel.mesh={pipeline=3}", "--resume"}));
  expect_same_end(result, expected, "resumed with three stages");
}

}  // namespace
}  // namespace muster
