#include "muster/cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A stream that remembers.
class Recorder {
 public:
  Recorder() : file_(std::tmpfile()) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  std::string take() {
    std::fflush(file_);
    std::string text(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file_), text.size());
    EXPECT_EQ(::ftruncate(::fileno(file_), 0), 0);
    std::rewind(file_);
    return text;
  }

 private:
  std::FILE* file_;
};

class ProgressTest : public ::testing::Test {
 protected:
  void start(ProgressView& view) {
    trainer::TrainingObserver::Start start;
    start.run = "runs/x";
    start.data = "pictures";
    start.model = "cnn";
    start.score = "accuracy";
    start.parameters = 1234567;
    start.steps_per_epoch = 100;
    start.total_steps = 200;
    start.batch = 10;
    start.lanes = 2;
    view.started(start);
  }
  void steps(ProgressView& view, std::uint64_t first, std::uint64_t last, std::chrono::milliseconds each) {
    for (std::uint64_t step = first; step <= last; ++step) {
      clock_.advance(each);
      view.step_committed({.epoch = (step - 1) / 100,
                           .step = step,
                           .step_in_epoch = (step - 1) % 100 + 1,
                           .loss = 0.5,
                           .score = 0.75,
                           .lr = 0.1,
                           .samples = 10,
                           .skipped = 0});
    }
  }

  Recorder out_;
  Recorder err_;
  FakeClock clock_;
};

TEST_F(ProgressTest, ATerminalGetsOneLineThatIsRewritten) {
  ProgressView view(ProgressStyle::kLive, out_.file(), err_.file(), 200, clock_);
  start(view);
  EXPECT_THAT(out_.take(), AllOf(HasSubstr("runs/x"), HasSubstr("1,234,567 parameters"), HasSubstr("10 in 2 lanes")));
  steps(view, 1, 50, std::chrono::milliseconds(200));
  const std::string text = out_.take();
  EXPECT_EQ(text.find('\n'), std::string::npos) << "the live line stays one line";
  // 10 samples each 200 ms; 150 steps of 200 ms left.
  EXPECT_THAT(
      text,
      HasSubstr(
          "epoch 1/2 [==========>         ] step 50/100  loss 0.5000  accuracy 0.7500  50 samples/s  30.0 s left"));
}

TEST_F(ProgressTest, TheLiveLineIsNotRewrittenMoreOftenThanEyesSee) {
  ProgressView view(ProgressStyle::kLive, out_.file(), err_.file(), 200, clock_);
  start(view);
  out_.take();
  steps(view, 1, 100, std::chrono::milliseconds(1));
  const std::string text = out_.take();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 1);
}

TEST_F(ProgressTest, TheLiveLineFitsTheTerminal) {
  ProgressView view(ProgressStyle::kLive, out_.file(), err_.file(), 40, clock_);
  start(view);
  out_.take();
  steps(view, 1, 1, std::chrono::milliseconds(200));
  const std::string text = out_.take();
  EXPECT_LE(text.size(), 40U + 4U);  // with the return and the erase code
}

TEST_F(ProgressTest, APipeGetsAPlainLineNowAndThen) {
  ProgressView view(ProgressStyle::kPlain, out_.file(), err_.file(), 200, clock_);
  start(view);
  out_.take();
  steps(view, 1, 100, std::chrono::milliseconds(250));  // 25 s
  const std::string text = out_.take();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
}

TEST_F(ProgressTest, ScriptsGetOneObjectALine) {
  ProgressView view(ProgressStyle::kJson, out_.file(), err_.file(), 200, clock_);
  start(view);
  steps(view, 1, 100, std::chrono::milliseconds(250));
  view.validated({.set = "test", .epoch = 1, .step = 100, .result = {0.25, {{"accuracy", 0.9}}, 10}, .best = true});
  trainer::TrainingResult result;
  result.test.metrics = {{"accuracy", 0.9}};
  result.best_loss = std::numeric_limits<double>::infinity();
  view.finished(result, "muster train --resume");
  std::istringstream lines(out_.take());
  std::vector<std::string> events;
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    events.push_back(row.at("event"));
    if (events.back() == "finished") {
      EXPECT_EQ(row.at("test_accuracy"), 0.9);
      EXPECT_TRUE(row.at("best_loss").is_null());
    }
  }
  EXPECT_EQ(events, (std::vector<std::string>{"started", "progress", "progress", "validation", "finished"}));
}

TEST_F(ProgressTest, QuietIsQuietButWarns) {
  ProgressView view(ProgressStyle::kQuiet, out_.file(), err_.file(), 200, clock_);
  start(view);
  steps(view, 1, 100, std::chrono::milliseconds(250));
  view.finished({}, "");
  view.warned("the disk is full");
  EXPECT_EQ(out_.take(), "");
  EXPECT_EQ(err_.take(), "muster: the disk is full\n");
}

TEST_F(ProgressTest, AnInterruptedRunSaysHowToResume) {
  ProgressView view(ProgressStyle::kPlain, out_.file(), err_.file(), 200, clock_);
  start(view);
  trainer::TrainingResult result;
  result.end = trainer::TrainingResult::End::kInterrupted;
  result.steps = 1234;
  result.checkpoint = "runs/x/checkpoints/step-1";
  view.finished(result, "muster train job.toml --resume --run runs/x");
  EXPECT_THAT(out_.take(), AllOf(HasSubstr("stopped at step 1,234"), HasSubstr("runs/x/checkpoints/step-1"),
                                 EndsWith("resume with: muster train job.toml --resume --run runs/x\n")));
}

}  // namespace
}  // namespace muster::cli
