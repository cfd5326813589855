// Losses and metrics against formulas written out by hand and against LibTorch's own functions over the whole set.
#include "muster/trainer/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "muster/base/error.h"
#include "muster/trainer/figure_names.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;

data::SampleSpec classes(std::int64_t count) {
  data::SampleSpec spec;
  spec.shape = {4};
  spec.classes = count;
  return spec;
}

data::SampleSpec values(std::int64_t count, std::vector<data::ValueScale> scale = {}) {
  data::SampleSpec spec;
  spec.shape = {4};
  spec.target = data::TargetKind::kValues;
  spec.target_shape = {count};
  spec.target_scale = std::move(scale);
  return spec;
}

data::SampleSpec text(std::int64_t window, std::int64_t vocabulary) {
  data::SampleSpec spec;
  spec.shape = {window};
  spec.input = data::InputKind::kTokens;
  spec.target = data::TargetKind::kTokens;
  spec.target_shape = {window};
  spec.classes = spec.vocabulary = vocabulary;
  return spec;
}

// As evaluate() does it: in batches of `size`.
Evaluation measure(const Task& task, const torch::Tensor& answer, const torch::Tensor& target, std::int64_t size) {
  const std::int64_t samples = target.size(0);
  std::vector<double> batches;
  std::vector<double> each;
  for (std::int64_t first = 0; first < samples; first += size) {
    const std::int64_t end = std::min(samples, first + size);
    std::vector<double> batch(task.batch_figures());
    std::vector<double> some(task.sample_figures() * static_cast<std::size_t>(end - first));
    task.measure(answer.slice(0, first, end), target.slice(0, first, end).contiguous(), batch, some);
    batches.insert(batches.end(), batch.begin(), batch.end());
    each.insert(each.end(), some.begin(), some.end());
  }
  return task.judge(batches, each);
}

// Against sums written out by hand; halves of a batch add up to the whole, as lanes do.
TEST(ClassificationTask, ClassesCanHaveWeightsInTraining) {
  torch::manual_seed(3);
  const torch::Tensor answer = torch::randn({12, 3});
  const torch::Tensor target = torch::randint(0, 3, {12}, torch::kInt64);
  const std::vector<double> weights{0.5, 3, 0};
  const auto task = make_task({.class_weights = weights}, classes(3));
  const torch::Tensor log = torch::log_softmax(answer, 1);
  double expected = 0;
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto label = target[i].item<std::int64_t>();
    expected -= weights[static_cast<std::size_t>(label)] * log[i][label].item<double>() / 12;
  }
  EXPECT_NEAR(task->loss(answer, target).item<double>(), expected, 1e-5);
  const double halves = (task->loss(answer.slice(0, 0, 6), target.slice(0, 0, 6)).item<double>() +
                         task->loss(answer.slice(0, 6, 12), target.slice(0, 6, 12)).item<double>()) /
                        2;
  EXPECT_NEAR(halves, expected, 1e-5);
  const torch::Tensor mixed = torch::full({12, 3}, 1.0 / 3);
  EXPECT_NEAR(task->loss(answer, mixed).item<double>(),
              -(log * torch::tensor({0.5, 3.0, 0.0})).sum().item<double>() / 36, 1e-5);
  const auto plain = make_task({}, classes(3));
  EXPECT_EQ(measure(*task, answer, target, 12).loss, measure(*plain, answer, target, 12).loss)
      << "evaluations know no weights";
}

TEST(ClassificationTask, KnowsLossAccuracyAndTop5) {
  torch::manual_seed(1);
  const torch::Tensor answer = torch::randn({50, 10});
  const torch::Tensor target = torch::randint(10, {50}, torch::kInt64);
  const auto task = make_task({"classification", 0.1}, classes(10));
  EXPECT_EQ(task->score_name(), "accuracy");
  EXPECT_EQ(task->loss(answer, target).item<float>(),
            F::cross_entropy(answer, target, F::CrossEntropyFuncOptions().label_smoothing(0.1)).item<float>());
  double right = 0;
  double in_five = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    const torch::Tensor order = answer[i].argsort(0, /*descending=*/true);
    for (std::int64_t k = 0; k < 5; ++k) {
      const bool hit = order[k].item<std::int64_t>() == target[i].item<std::int64_t>();
      right += hit && k == 0 ? 1 : 0;
      in_five += hit ? 1 : 0;
    }
  }
  for (const std::int64_t batch : {7, 50}) {
    const Evaluation evaluation = measure(*task, answer, target, batch);
    EXPECT_NEAR(evaluation.loss, F::cross_entropy(answer, target).item<double>(), 1e-6) << "without smoothing";
    EXPECT_DOUBLE_EQ(evaluation.metric("accuracy"), right / 50);
    EXPECT_DOUBLE_EQ(evaluation.metric("top5"), in_five / 50);
    EXPECT_EQ(evaluation.samples, 50U);
    EXPECT_EQ(evaluation.metrics.size(), 2U);
  }
  EXPECT_EQ(task->score(answer, target), right);
}

TEST(ClassificationTask, OfEqualScoresOnlyFiveAreTheFirstFive) {
  const auto task = make_task({}, classes(10));
  const torch::Tensor target = torch::arange(10, torch::kInt64);
  EXPECT_EQ(measure(*task, torch::zeros({10, 10}), target, 10).metric("top5"), 0.5) << "a model that knows nothing";
  // Class 9 is the best, and four of the nine others come with it.
  torch::Tensor answer = torch::zeros({10, 10});
  answer.select(1, 9).fill_(1);
  EXPECT_EQ(measure(*task, answer, target, 3).metric("top5"), 0.5);
  EXPECT_EQ(measure(*task, answer, target, 3).metric("accuracy"), 0.1);
}

TEST(ClassificationTask, AScoreThatIsNoneIsNotAmongTheFirstFive) {
  const auto task = make_task({}, classes(6));
  const torch::Tensor answer = torch::full({1, 6}, NAN);
  EXPECT_EQ(measure(*task, answer, torch::zeros({1}, torch::kInt64), 1).metric("top5"), 0);
}

TEST(ClassificationTask, OfTwoClassesHasAnAreaUnderTheCurve) {
  const torch::Tensor answer = torch::tensor({{0.0, 0.1}, {0.0, 0.4}, {1.0, 1.35}, {-1.0, -0.2}});
  const torch::Tensor target = torch::tensor({0, 0, 1, 1}, torch::kInt64);
  for (const std::int64_t batch : {1, 3, 4})
    EXPECT_EQ(measure(*make_task({}, classes(2)), answer, target, batch).metric("auc"), 0.75);
}

TEST(RegressionTask, HasItsErrorsInTheUnitsOfTheData) {
  // Prices with a mean of 200,000 and a deviation of 50,000 next to a number that is given as it is.
  const auto spec = values(2, {{200000, 50000}, {0, 1}});
  const torch::Tensor target = torch::tensor({{-1.0F, 1.0F}, {0.0F, 2.0F}, {1.0F, 6.0F}});
  const torch::Tensor answer = torch::tensor({{-1.0F, 1.0F}, {0.5F, 2.0F}, {1.0F, 3.0F}});
  const auto task = make_task({"regression"}, spec);
  for (const std::int64_t batch : {1, 2, 3}) {
    const Evaluation evaluation = measure(*task, answer, target, batch);
    EXPECT_NEAR(evaluation.loss, (0.25 + 9) / 6, 1e-6) << "as the model sees it";
    EXPECT_NEAR(evaluation.metric("mae"), (25000.0 / 3 + 3.0 / 3) / 2, 1e-6);
    EXPECT_NEAR(evaluation.metric("mse"), (625e6 / 3 + 9.0 / 3) / 2, 1e-3);
    EXPECT_NEAR(evaluation.metric("r2"), ((1 - 0.25 / 2) + (1 - 9.0 / 14)) / 2, 1e-9);
  }
  EXPECT_EQ(task->score_name(), "mae");
  EXPECT_NEAR(task->score(answer, target), (25000 + 3) / 2.0, 1e-6);
}

TEST(RegressionTask, MinimisesTheErrorThatIsNamed) {
  torch::manual_seed(2);
  const torch::Tensor answer = 3 * torch::randn({20, 1});
  const torch::Tensor target = torch::randn({20, 1});
  const auto loss = [&](const char* error) {
    return make_task({.error = error}, values(1))->loss(answer, target).item<float>();
  };
  const torch::Tensor difference = (answer - target).abs();
  EXPECT_FLOAT_EQ(loss("mse"), difference.square().mean().item<float>());
  EXPECT_FLOAT_EQ(loss("mae"), difference.mean().item<float>());
  EXPECT_FLOAT_EQ(loss("huber"),
                  torch::where(difference < 1, 0.5 * difference.square(), difference - 0.5).mean().item<float>());
}

TEST(RegressionTask, TakesARowOrAColumnOfAnswers) {
  const torch::Tensor target = torch::tensor({{1.0F}, {2.0F}, {3.0F}});
  const auto task = make_task({}, values(1));
  EXPECT_EQ(task->loss(torch::tensor({1.0F, 2.0F, 3.0F}), target).item<float>(), 0)
      << "not the difference of all with all";
  EXPECT_THROW(task->loss(torch::zeros({3, 2}), target), Error);
}

TEST(LanguageTask, ScoresEveryPosition) {
  torch::manual_seed(3);
  const torch::Tensor answer = torch::randn({9, 4, 7});
  const torch::Tensor target = torch::randint(7, {9, 4}, torch::kInt64);
  const auto task = make_task({"language"}, text(4, 7));
  double loss = 0;
  double right = 0;
  for (std::int64_t i = 0; i < 9; ++i) {
    for (std::int64_t t = 0; t < 4; ++t) {
      const auto next = target[i][t].item<std::int64_t>();
      loss -= torch::log_softmax(answer[i][t], 0)[next].item<double>() / 36;
      right += answer[i][t].argmax().item<std::int64_t>() == next ? 1.0 / 36 : 0;
    }
  }
  EXPECT_NEAR(task->loss(answer, target).item<double>(), loss, 1e-6);
  for (const std::int64_t batch : {2, 9}) {
    const Evaluation evaluation = measure(*task, answer, target, batch);
    EXPECT_NEAR(evaluation.loss, loss, 1e-6);
    EXPECT_NEAR(evaluation.metric("accuracy"), right, 1e-12);
    EXPECT_NEAR(evaluation.metric("perplexity"), std::exp(loss), 1e-5);
  }
}

// Who asks for a figure before anything is trained is told by what tasks really have.
TEST(ValidationFigures, AreThoseThatTasksTell) {
  for (const char* name : {"classification", "regression", "language"}) {
    std::set<std::string> told{"loss", "train_loss"};
    std::vector<data::SampleSpec> specs{values(1)};
    if (name == std::string("classification")) specs = {classes(2), classes(10)};
    if (name == std::string("language")) specs = {text(3, 7)};
    for (const data::SampleSpec& spec : specs) {
      const auto task = make_task({.name = name}, spec);
      told.insert("train_" + task->score_name());
      for (const Metric& metric : task->judge(std::vector<double>(task->batch_figures()), {}).metrics)
        told.insert(metric.name);
    }
    Job job;
    job.loss.task = name;
    const std::vector<std::string> names = validation_figures(job);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), told) << name;
  }
  Job own;
  own.loss.task = "library";
  EXPECT_TRUE(validation_figures(own).empty());
}

TEST(TaskOf, SamplesThatItDoesNotFitIsRefusedWithTheRightOne) {
  const auto remedy = [](const char* name, const data::SampleSpec& spec) {
    try {
      make_task({name}, spec);
      return std::string("taken");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.remedy();
    }
  };
  EXPECT_EQ(remedy("classification", classes(3)), "taken");
  EXPECT_THAT(remedy("regression", classes(3)), ::testing::HasSubstr("\"classification\""));
  EXPECT_THAT(remedy("classification", text(4, 7)), ::testing::HasSubstr("\"language\""));
  EXPECT_THAT(remedy("language", values(1)), ::testing::HasSubstr("\"regression\""));
}

TEST(TaskOf, AnAnswerOfAnotherShapeIsRefusedWithBothShapes) {
  const auto message = [](const data::SampleSpec& spec, const torch::Tensor& answer, const torch::Tensor& target) {
    try {
      make_task({}, spec)->loss(answer, target);
      return std::string("taken");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      return error.message();
    }
  };
  const torch::Tensor labels = torch::zeros({2}, torch::kInt64);
  EXPECT_THAT(message(classes(3), torch::zeros({2, 2}), labels),
              ::testing::AllOf(::testing::HasSubstr("(2, 2)"), ::testing::HasSubstr("(2, 3)")));
  EXPECT_EQ(message(classes(3), torch::zeros({2, 3}), labels), "taken");
  EXPECT_THAT(message(text(4, 7), torch::zeros({2, 7}), torch::zeros({2, 4}, torch::kInt64)),
              ::testing::HasSubstr("(2, 4, 7)"));
}

}  // namespace
}  // namespace muster::trainer
