// The best, the last, a step, or an error that says what there is.
#include "muster/trainer/checkpoint_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/model_card.h"
#include "muster/trainer/run_lock.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class CheckpointChoiceTest : public ::testing::Test {
 protected:
  void make(std::uint64_t step) { std::filesystem::create_directories(store_.path_of(step)); }
  ChosenCheckpoint choose(const CheckpointChoice& choice = {}) { return choose_checkpoint(folder_.path(), choice); }

  testing::TemporaryFolder folder_;
  model::CheckpointStore store_{folder_ / "checkpoints"};
};

TEST_F(CheckpointChoiceTest, TheBestIfOneIsMarkedAndElseTheLast) {
  EXPECT_THAT([&] { choose(); }, ThrowsMessage<Error>(HasSubstr("no checkpoint")));
  make(5);
  make(12);
  EXPECT_EQ(choose().step, 12U);
  EXPECT_THAT(choose().why, HasSubstr("none is marked as the best"));
  EXPECT_THAT([&] { choose({.best = true}); }, ThrowsMessage<Error>(HasSubstr("--last")));
  store_.mark_best(5, 0.25);
  for (const bool said : {false, true}) {
    EXPECT_EQ(choose({.best = said}).path, store_.path_of(5));
    EXPECT_THAT(choose({.best = said}).why,
                AllOf(HasSubstr("step 5, the best"), HasSubstr("0.2500"), HasSubstr("its last is step 12")));
  }
  store_.mark_best(12, 0.125);
  EXPECT_THAT(choose().why, HasSubstr("also its last"));
}

// Nobody is told to wait for what will not come, nor to resume what will fail again.
TEST_F(CheckpointChoiceTest, ARunWithoutOneIsWaitedForOnlyWhileItIsTrained) {
  const auto message = [&]() -> std::string {
    try {
      choose();
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  testing::spill(folder_ / "job.toml", "");
  EXPECT_THAT(message(), AllOf(HasSubstr("is over"), HasSubstr("Train anew"), Not(HasSubstr("--resume"))));
  {
    const RunLock trainer(folder_.path(), Deadline::after(std::chrono::seconds(0)));
    EXPECT_THAT(message(), AllOf(HasSubstr("no checkpoint yet"), HasSubstr("wait")));
  }
  ModelCard card;
  card.failure = "failed after step 0: no memory";
  card.write(folder_.path());
  EXPECT_THAT(message(), AllOf(HasSubstr("it failed after step 0: no memory"), HasSubstr("Correct what stopped it"),
                               Not(HasSubstr("--resume"))));
}

TEST_F(CheckpointChoiceTest, WhatIsAskedForOrAnErrorWithWhatThereIs) {
  make(5);
  make(12);
  store_.mark_best(5, 0.25);
  EXPECT_EQ(choose({.last = true}).step, 12U);
  EXPECT_EQ(choose({.step = 5}).step, 5U);
  EXPECT_THAT([&] { choose({.step = 6}); }, ThrowsMessage<Error>(AllOf(HasSubstr("step 6"), HasSubstr("5, 12"))));
  EXPECT_THROW(choose({.best = true, .step = 5}), Error);
}

}  // namespace
}  // namespace muster::trainer
