// Jobs that begin from weights and keep parts of the model as they are, by several workers, through losses and a
// resume.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/program.h"
#include "support/sandbox.h"
#include "support/training_program.h"

namespace muster {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::rows;
using testing::run_program;
using testing::train_arguments;

// 8 steps an epoch; the convolutions train from the second epoch on, that is in steps 9 to 16.
class FineTuning : public ::testing::Test {
 protected:
  FineTuning() {
    testing::spill(folder_ / "job.toml", testing::stateful_job("first", {"job.epochs=1", "job.seed=3"}));
    const Json first = end_of(run_program(folder_.path(), train_arguments(1)));
    std::filesystem::rename(folder_ / first.at("checkpoint").get<std::string>() / "model.safetensors",
                            folder_ / "first.safetensors");
    testing::spill(folder_ / "job.toml",
                   testing::stateful_job("tuned", {"model.init=\"first.safetensors\"", "model.freeze=[\"conv*\"]",
                                                   "model.unfreeze=[\"conv*=1\"]"}));
  }
  static Json end_of(const Finished& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return rows(result.out).back();
  }
  Json train(int workers, const std::vector<std::string>& more = {}) {
    return end_of(run_program(folder_.path(), train_arguments(workers, more)));
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(FineTuning, SeveralWorkersBeginFromTheFileAsOneDoes) {
  const Json one = train(1);
  EXPECT_NE(train(1, {"model.init="}).at("weights"), one.at("weights")) << "the file counts";
  const Json several = train(3);
  EXPECT_EQ(several.at("weights"), one.at("weights"));
  EXPECT_EQ(several.at("test_loss"), one.at("test_loss"));
}

TEST_F(FineTuning, ARunIsResumedWhenTheFileItBeganFromIsGone) {
  const std::string constant = "optimizer.schedule=constant";  // a schedule would tell one epoch from two
  const Json straight = train(1, {constant});
  train(2, {constant, "job.runs=resumed", "job.epochs=1"});
  std::filesystem::remove(folder_ / "first.safetensors");
  const Finished fresh = run_program(folder_.path(), train_arguments(2, {constant, "job.runs=none"}));
  EXPECT_EQ(fresh.exit_code, 2) << "a new run needs it";
  EXPECT_THAT(fresh.err, HasSubstr("first.safetensors"));
  EXPECT_EQ(train(2, {constant, "job.runs=resumed", "--resume"}).at("weights"), straight.at("weights"));
}

// The last step of the first epoch, the first of the next, in which the convolutions begin to train, and one later. A
// worker that takes a place joins in the middle of that epoch.
TEST_F(FineTuning, ALossInTheEpochThatThawsAPartChangesNothing) {
  const Json expected = train(1);
  const testing::Failpoints armed(
      "arena.commit.before_flip=kill@rank=2,step=7,attempt=0;arena.arrive.before=kill@rank=1,step=8,attempt=0;"
      "arena.commit.after_arrival=kill@rank=0,step=10,attempt=0");
  const Finished result = run_program(folder_.path(), train_arguments(3, {"parallel.claims=static"}));
  const Json end = end_of(result);
  for (const int rank : {0, 1})
    EXPECT_THAT(result.err, HasSubstr(fmt::format("worker {} ", rank))) << "it was not killed";
  EXPECT_EQ(end.at("weights"), expected.at("weights")) << result.err;
  EXPECT_EQ(end.at("step"), expected.at("step"));
}

}  // namespace
}  // namespace muster
