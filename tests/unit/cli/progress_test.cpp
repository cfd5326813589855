// What each kind of output gets, with streams that remember and a clock that is turned by hand.
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
  ProgressView view(
      ProgressStyle::kLive, out_.file(), err_.file(), [] { return 200; }, clock_);
  start(view);
  EXPECT_THAT(out_.take(), AllOf(HasSubstr("runs/x"), HasSubstr("1,234,567 parameters"), HasSubstr("10 in 2 lanes")));
  steps(view, 1, 50, std::chrono::milliseconds(200));
  const std::string text = out_.take();
  EXPECT_EQ(text.find('\n'), std::string::npos) << "the live line stays one line";
  // 10 samples each 200 ms; 150 steps of 200 ms left.
  EXPECT_THAT(
      text,
      HasSubstr(
          "epoch 1/2  [==========>         ]  step 50/100  loss 0.5000  accuracy 0.7500  50 samples/s  30.0 s left"));
}

TEST_F(ProgressTest, TheLiveLineIsNotRewrittenMoreOftenThanEyesSee) {
  ProgressView view(
      ProgressStyle::kLive, out_.file(), err_.file(), [] { return 200; }, clock_);
  start(view);
  out_.take();
  steps(view, 1, 100, std::chrono::milliseconds(1));
  const std::string text = out_.take();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 1);
}

TEST_F(ProgressTest, TheLiveLineFitsTheTerminal) {
  ProgressView view(
      ProgressStyle::kLive, out_.file(), err_.file(), [] { return 40; }, clock_);
  start(view);
  out_.take();
  steps(view, 1, 1, std::chrono::milliseconds(200));
  const std::string text = out_.take();
  EXPECT_LE(text.size(), 40U + 4U);  // with the return and the erase code
}

// What is left of the line without its codes.
std::string last_line(const std::string& text) {
  const std::size_t begin = text.rfind('\r') + 1;
  return text.substr(begin, text.find('\x1b', begin) - begin);
}

TEST_F(ProgressTest, InANarrowTerminalRateAndTimeLeftAreTheLastToGo) {
  int width = 80;
  ProgressView view(
      ProgressStyle::kLive, out_.file(), err_.file(), [&] { return width; }, clock_);
  start(view);
  steps(view, 1, 50, std::chrono::milliseconds(200));
  EXPECT_EQ(last_line(out_.take()), "epoch 1/2  step 50/100  loss 0.5000  accuracy 0.7500  50 samples/s  30.0 s left");
  const std::vector<std::pair<int, std::string>> narrower{
      {79, "epoch 1/2  [======>     ]  step 51/100  loss 0.5000  50 samples/s  29.8 s left"},
      {70, "epoch 1/2  step 52/100  loss 0.5000  50 samples/s  29.6 s left"},
      {50, "epoch 1/2  loss 0.5000  50 samples/s  29.4 s left"},
      {37, "epoch 1/2  50 samples/s  29.2 s left"},
      {30, "epoch 1/2  29.0 s left"},
      {100, "epoch 1/2  [========>       ]  step 56/100  loss 0.5000  accuracy 0.7500  50 samples/s  28.8 s left"}};
  std::uint64_t step = 51;
  for (const auto& [columns, expected] : narrower) {
    width = columns;
    steps(view, step, step, std::chrono::milliseconds(200));
    ++step;
    EXPECT_EQ(last_line(out_.take()), expected) << columns;
  }
}

// A job may be given fewer steps than its run has done.
TEST_F(ProgressTest, ARunThatIsPastItsStepsDoesNotGoOnFromThere) {
  ProgressView view(
      ProgressStyle::kPlain, out_.file(), err_.file(), [] { return 200; }, clock_);
  trainer::TrainingObserver::Start start;
  start.first_step = 20;
  start.total_steps = 200;
  view.started(start);
  EXPECT_THAT(out_.take(), HasSubstr("resume from step 20 of 200\n"));
  start.total_steps = 1;
  view.started(start);
  EXPECT_THAT(out_.take(), HasSubstr("resume after step 20: the job has 1 step, and none is left\n"));
}

TEST_F(ProgressTest, CountsToTheStepsOfTheJobAndNotPastThem) {
  ProgressView view(
      ProgressStyle::kLive, out_.file(), err_.file(), [] { return 200; }, clock_);
  trainer::TrainingObserver::Start start;
  start.score = "accuracy";
  start.steps_per_epoch = 100;
  start.total_steps = 130;
  view.started(start);
  steps(view, 1, 50, std::chrono::milliseconds(200));
  EXPECT_THAT(last_line(out_.take()), AllOf(StartsWith("epoch 1/2 "), HasSubstr("step 50/100")));
  steps(view, 51, 115, std::chrono::milliseconds(200));
  EXPECT_THAT(last_line(out_.take()),
              AllOf(StartsWith("epoch 2/2  [==========>         ]  step 15/30"), HasSubstr("3.0 s left")));
}

TEST_F(ProgressTest, StepsThatWereAllSkippedHaveNoLoss) {
  ProgressView view(
      ProgressStyle::kPlain, out_.file(), err_.file(), [] { return 200; }, clock_);
  start(view);
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const std::uint64_t step : {1, 2}) {
    clock_.advance(std::chrono::seconds(20));
    view.step_committed({.epoch = 0,
                         .step = step,
                         .step_in_epoch = step,
                         .loss = none,
                         .score = none,
                         .lr = 0.1,
                         .samples = 10,
                         .skipped = step});
  }
  EXPECT_THAT(out_.take(), AllOf(HasSubstr("all 2 steps skipped (gradient not finite)"), Not(HasSubstr("loss 0.0000")),
                                 Not(HasSubstr("nan"))));
  view.validated({.set = "test",
                  .epoch = 1,
                  .step = 2,
                  .train_loss = none,
                  .train_score = none,
                  .result = {0.25, {{"accuracy", 0.9}}, 10}});
  EXPECT_THAT(out_.take(), HasSubstr("no step of this epoch was applied"));
  trainer::TrainingResult result;
  result.steps = result.skipped = 2;
  view.finished(result, "");
  EXPECT_THAT(out_.take(), HasSubstr("every step was skipped"));
}

TEST_F(ProgressTest, APipeGetsAPlainLineNowAndThen) {
  ProgressView view(
      ProgressStyle::kPlain, out_.file(), err_.file(), [] { return 200; }, clock_);
  start(view);
  out_.take();
  steps(view, 1, 100, std::chrono::milliseconds(250));  // 25 s
  const std::string text = out_.take();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos);
}

TEST_F(ProgressTest, ScriptsGetOneObjectALine) {
  ProgressView view(
      ProgressStyle::kJson, out_.file(), err_.file(), [] { return 200; }, clock_);
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
  ProgressView view(
      ProgressStyle::kQuiet, out_.file(), err_.file(), [] { return 200; }, clock_);
  start(view);
  steps(view, 1, 100, std::chrono::milliseconds(250));
  view.finished({}, "");
  view.warned("the disk is full");
  EXPECT_EQ(out_.take(), "");
  EXPECT_EQ(err_.take(), "muster: the disk is full\n");
}

TEST_F(ProgressTest, AViewThatEndsWithAnErrorLeavesNoHalfALine) {
  {
    ProgressView view(
        ProgressStyle::kLive, out_.file(), err_.file(), [] { return 80; }, clock_);
    start(view);
    steps(view, 1, 10, std::chrono::milliseconds(250));
    ASSERT_THAT(out_.take(), EndsWith("\x1b[K"));
  }
  EXPECT_EQ(out_.take(), "\r\x1b[K");
}

TEST_F(ProgressTest, AnInterruptedRunSaysHowToResume) {
  ProgressView view(
      ProgressStyle::kPlain, out_.file(), err_.file(), [] { return 200; }, clock_);
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
