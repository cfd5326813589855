// Checkpoints in the background: a disk that takes its time is waited for, one that hangs is not waited for for ever.
#include "muster/trainer/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "muster/trainer/session.h"
#include "muster/trainer/session_core.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CheckpointWriterTest : public ::testing::Test {
 protected:
  Deadline soon() const { return Deadline::after(seconds(60)); }
  TrainingState state(TrainingState memory = {}) const { return capture(session_.core(), std::move(memory)); }
  model::CheckpointStore store() const { return model::CheckpointStore(folder_.path()); }

  const testing::TemporaryFolder folder_;
  std::shared_ptr<testing::BatchNormNet> net_ = testing::make_net<testing::BatchNormNet>(1);
  Session session_{net_, compute::Sgd{.lr = 0.1}, {.batch = 16}};
  std::promise<void> disk_;  // answers when its value is set
  const std::shared_future<void> answer_ = disk_.get_future().share();
};

TEST_F(CheckpointWriterTest, ADiskThatHangsIsWaitedForUntilTheDeadlineAndNoLonger) {
  int written = 0;
  CheckpointWriter writer(store(), {.before = [answer = answer_] { answer.wait(); },
                                    .done = [&](const auto& one) { written += one.failure.empty() ? 1 : 0; }});
  std::optional<TrainingState> memory = writer.spare(soon());
  ASSERT_TRUE(memory);
  writer.submit(state(std::move(*memory)), std::nullopt);
  EXPECT_TRUE(writer.busy());
  EXPECT_FALSE(writer.spare(Deadline::after(std::chrono::nanoseconds(0))));
  EXPECT_FALSE(writer.wait(Deadline::after(milliseconds(1))));
  disk_.set_value();
  memory = writer.spare(soon());
  ASSERT_TRUE(memory);
  EXPECT_EQ(written, 1);
  writer.submit(state(std::move(*memory)), std::nullopt);
  EXPECT_TRUE(writer.wait(soon()));
  EXPECT_EQ(written, 2);
}

TEST_F(CheckpointWriterTest, WhatWasSubmittedIsWrittenBeforeItGoes) {
  int written = 0;
  {
    CheckpointWriter writer(store(), {.done = [&](const auto& one) { written += one.failure.empty() ? 1 : 0; }});
    writer.submit(state(), std::nullopt);
  }
  EXPECT_EQ(written, 1);
  EXPECT_EQ(store().list(), std::vector<std::uint64_t>{0});
}

TEST_F(CheckpointWriterTest, GoesWithoutADiskThatHangsAndTellsNobodyOfItLater) {
  std::promise<void> begun;
  std::promise<void> ended;
  std::atomic<int> told = 0;
  {
    // Goes when the thread has come to its end, which then cannot call anything any more.
    const std::shared_ptr<void> life(nullptr, [&ended](void*) { ended.set_value(); });
    CheckpointWriterOptions options;
    options.before = [life, &begun, answer = answer_] {
      begun.set_value();
      answer.wait();
    };
    options.done = [&](const auto&) { ++told; };
    options.patience = milliseconds(0);
    CheckpointWriter writer(store(), std::move(options));
    writer.submit(state(), std::nullopt);
    begun.get_future().wait();
  }
  disk_.set_value();
  ended.get_future().wait();
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace muster::trainer
