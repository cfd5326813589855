// One class a task. What a batch gives is a list of sums and not of means, so that batches of workers add up to the
// same figures in the same order.
#include "muster/trainer/task.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;

constexpr std::int64_t kTop = 5;

[[noreturn]] void refuse_answer(const torch::Tensor& answer, const std::string& expected) {
  throw Error(ErrorKind::kMismatch,
              fmt::format("the model answers with the shape ({}); the task wants {}", fmt::join(answer.sizes(), ", "),
                          expected),
              "model");
}

// The figures of all batches, added up in order.
std::vector<double> sums(std::span<const double> batches, std::size_t width) {
  std::vector<double> total(width);
  for (std::size_t i = 0; i < batches.size(); ++i)
    total[i % width] += batches[i];
  return total;
}

double total_of(const torch::Tensor& tensor) {
  return tensor.to(torch::kFloat64).sum().item<double>();
}

class Classification final : public Task {
 public:
  Classification(std::int64_t classes, double smoothing, const std::vector<double>& weights)
      : classes_(classes), smoothing_(smoothing) {
    if (!weights.empty()) weights_ = torch::tensor(weights, torch::kFloat32);
  }

  std::string score_name() const override { return "accuracy"; }

  torch::Tensor loss(const torch::Tensor& answer, const torch::Tensor& target) const override {
    require_scores(answer, target);
    F::CrossEntropyFuncOptions options = F::CrossEntropyFuncOptions().label_smoothing(smoothing_);
    if (!weights_.defined()) return F::cross_entropy(answer, target, options);
    // The mean over the samples, not over their weights: then lanes add up to what the whole batch gives.
    return F::cross_entropy(answer, target, options.weight(weights_).reduction(torch::kNone)).mean();
  }

  double score(const torch::Tensor& answer, const torch::Tensor& target) const override {
    // Of samples that were mixed the larger part counts.
    return total_of(answer.argmax(1).eq(target.dim() == 2 ? target.argmax(1) : target));
  }

  torch::Tensor sample_losses(const torch::Tensor& answer, const torch::Tensor& target) const override {
    require_scores(answer, target);
    return F::cross_entropy(answer, target, F::CrossEntropyFuncOptions().reduction(torch::kNone));
  }

  std::size_t batch_figures() const override { return classes_ > kTop ? 4 : 3; }
  std::size_t sample_figures() const override { return classes_ == 2 ? 2 : 0; }

  void measure(const torch::Tensor& answer, const torch::Tensor& target, std::span<double> batch,
               std::span<double> samples) const override {
    require_scores(answer, target);
    const auto count = static_cast<double>(answer.size(0));
    batch[0] = count;
    batch[1] = F::cross_entropy(answer, target).item<double>() * count;
    batch[2] = score(answer, target);
    if (classes_ > kTop) {
      // Of equal scores the class of the lower number comes first, as in argmax: five answers, and not all that tie.
      const torch::Tensor own = answer.gather(1, target.unsqueeze(1));
      const torch::Tensor earlier = torch::arange(answer.size(1)).unsqueeze(0).lt(target.unsqueeze(1));
      const torch::Tensor before = answer.gt(own).logical_or(answer.eq(own).logical_and(earlier));
      batch[3] = total_of(before.sum(1).lt(kTop).logical_and(own.squeeze(1).isfinite()));
    }
    if (classes_ != 2) return;
    // The difference orders samples as the probability does.
    const torch::Tensor scores = (answer.select(1, 1) - answer.select(1, 0)).to(torch::kFloat64).contiguous();
    for (std::int64_t i = 0; i < scores.size(0); ++i) {
      const auto place = 2 * static_cast<std::size_t>(i);
      samples[place] = scores.data_ptr<double>()[i];
      samples[place + 1] = static_cast<double>(target.data_ptr<std::int64_t>()[i]);
    }
  }

  Evaluation judge(std::span<const double> batches, std::span<const double> samples) const override {
    const std::vector<double> total = sums(batches, batch_figures());
    Evaluation evaluation;
    evaluation.samples = static_cast<std::uint64_t>(total[0]);
    const double count = std::max(total[0], 1.0);
    evaluation.loss = total[1] / count;
    evaluation.metrics.push_back({"accuracy", total[2] / count});
    if (classes_ > kTop) evaluation.metrics.push_back({"top5", total[3] / count});
    if (classes_ != 2) return evaluation;
    std::vector<Scored> scored;
    for (std::size_t i = 0; i + 1 < samples.size(); i += 2)
      scored.push_back({samples[i], samples[i + 1] > 0});
    evaluation.metrics.push_back({"auc", area_under_curve(std::move(scored))});
    return evaluation;
  }

 private:
  void require_scores(const torch::Tensor& answer, const torch::Tensor& target) const {
    if (answer.dim() != 2 || answer.size(0) != target.size(0) || answer.size(1) < classes_)
      refuse_answer(answer, fmt::format("({}, {}): a score for each class of each sample", target.size(0), classes_));
  }

  std::int64_t classes_;  // 0: nobody knows how many
  double smoothing_;
  torch::Tensor weights_;  // of the classes; undefined: they are alike
};

// Targets come as the data set scales them, and the model answers alike; metrics are in the data's own units.
class Regression final : public Task {
 public:
  Regression(std::string error, const data::SampleSpec& spec)
      : error_(std::move(error)), values_(static_cast<std::int64_t>(spec.target_elements())) {
    std::vector<double> units(static_cast<std::size_t>(values_), 1.0);
    for (std::size_t i = 0; i < spec.target_scale.size(); ++i)
      units[i] = spec.target_scale[i].stddev;
    units_ = torch::tensor(units, torch::kFloat64);
  }

  std::string score_name() const override { return "mae"; }

  torch::Tensor loss(const torch::Tensor& answer, const torch::Tensor& target) const override {
    const torch::Tensor values = same_shape(answer, target);
    if (error_ == "mae") return F::l1_loss(values, target);
    if (error_ == "huber") return F::huber_loss(values, target);
    return F::mse_loss(values, target);
  }

  double score(const torch::Tensor& answer, const torch::Tensor& target) const override {
    return total_of(errors(answer, target).abs()) / static_cast<double>(values_);
  }

  torch::Tensor sample_losses(const torch::Tensor& answer, const torch::Tensor& target) const override {
    return errors(answer, target).abs().mean(1);
  }

  std::size_t batch_figures() const override { return 2 + 4 * static_cast<std::size_t>(values_); }

  void measure(const torch::Tensor& answer, const torch::Tensor& target, std::span<double> batch,
               std::span<double>) const override {
    const auto count = static_cast<double>(target.size(0));
    const torch::Tensor error = errors(answer, target);
    const torch::Tensor truth = target.reshape({-1, values_}).to(torch::kFloat64) * units_;
    const torch::Tensor mean = truth.mean(0);
    batch[0] = count;
    batch[1] = loss(answer, target).item<double>() * count;
    std::span<double> rest = batch.subspan(2);
    for (const torch::Tensor& figures :
         {error.abs().sum(0), error.square().sum(0), mean, (truth - mean).square().sum(0)}) {
      for (std::int64_t i = 0; i < values_; ++i)
        rest[static_cast<std::size_t>(i)] = figures[i].item<double>();
      rest = rest.subspan(static_cast<std::size_t>(values_));
    }
  }

  Evaluation judge(std::span<const double> batches, std::span<const double>) const override {
    const std::size_t width = batch_figures();
    const auto values = static_cast<std::size_t>(values_);
    const std::vector<double> total = sums(batches, width);
    Evaluation evaluation;
    evaluation.samples = static_cast<std::uint64_t>(total[0]);
    const double count = std::max(total[0], 1.0);
    evaluation.loss = total[1] / count;
    double absolute = 0;
    double squared = 0;
    double explained = 0;
    for (std::size_t i = 0; i < values; ++i) {
      Moments truth;
      for (std::size_t batch = 0; batch < batches.size(); batch += width)
        truth.add({batches[batch], batches[batch + 2 + 2 * values + i], batches[batch + 2 + 3 * values + i]});
      absolute += total[2 + i] / count;
      squared += total[2 + values + i] / count;
      explained += r_squared(total[2 + values + i], truth.squares);
    }
    const auto each = static_cast<double>(values_);
    evaluation.metrics = {{"mae", absolute / each}, {"mse", squared / each}, {"r2", explained / each}};
    return evaluation;
  }

 private:
  torch::Tensor same_shape(const torch::Tensor& answer, const torch::Tensor& target) const {
    if (answer.numel() != target.numel() || answer.dim() == 0 || answer.size(0) != target.size(0))
      refuse_answer(answer, fmt::format("({}, {}): a number for each value of each sample", target.size(0), values_));
    return answer.reshape(target.sizes());
  }

  torch::Tensor errors(const torch::Tensor& answer, const torch::Tensor& target) const {
    const torch::Tensor difference = same_shape(answer, target).to(torch::kFloat64) - target.to(torch::kFloat64);
    return difference.reshape({-1, values_}) * units_;
  }

  std::string error_;
  std::int64_t values_;
  torch::Tensor units_;
};

// The loss of a sample is the mean over its positions, all samples having the same number of them.
class Language final : public Task {
 public:
  Language(std::int64_t vocabulary, double smoothing) : vocabulary_(vocabulary), smoothing_(smoothing) {}

  std::string score_name() const override { return "accuracy"; }

  torch::Tensor loss(const torch::Tensor& answer, const torch::Tensor& target) const override {
    return cross_entropy(answer, target, smoothing_);
  }

  double score(const torch::Tensor& answer, const torch::Tensor& target) const override {
    require_scores(answer, target);
    return total_of(answer.argmax(2).eq(target)) / static_cast<double>(target.size(1));
  }

  torch::Tensor sample_losses(const torch::Tensor& answer, const torch::Tensor& target) const override {
    require_scores(answer, target);
    return F::cross_entropy(answer.flatten(0, 1), target.flatten(),
                            F::CrossEntropyFuncOptions().reduction(torch::kNone))
        .reshape(target.sizes())
        .mean(1);
  }

  torch::Tensor divided_loss(const torch::Tensor& answer, const torch::Tensor& target,
                             const model::TensorTeam& team) const override {
    return team.cross_entropy(answer.flatten(0, 1), target.flatten(), vocabulary_, smoothing_);
  }

  double divided_score(const torch::Tensor& answer, const torch::Tensor& target,
                       const model::TensorTeam& team) const override {
    const torch::Tensor best = team.best_class(answer.flatten(0, 1), vocabulary_);
    return total_of(best.eq(target.flatten())) / static_cast<double>(target.size(1));
  }

  std::size_t batch_figures() const override { return 3; }

  void measure(const torch::Tensor& answer, const torch::Tensor& target, std::span<double> batch,
               std::span<double>) const override {
    const auto count = static_cast<double>(target.size(0));
    batch[0] = count;
    batch[1] = cross_entropy(answer, target, 0).item<double>() * count;
    batch[2] = score(answer, target);
  }

  Evaluation judge(std::span<const double> batches, std::span<const double>) const override {
    const std::vector<double> total = sums(batches, batch_figures());
    Evaluation evaluation;
    evaluation.samples = static_cast<std::uint64_t>(total[0]);
    const double count = std::max(total[0], 1.0);
    evaluation.loss = total[1] / count;
    evaluation.metrics = {{"accuracy", total[2] / count}, {"perplexity", std::exp(evaluation.loss)}};
    return evaluation;
  }

 private:
  void require_scores(const torch::Tensor& answer, const torch::Tensor& target) const {
    if (answer.dim() != 3 || answer.size(0) != target.size(0) || answer.size(1) != target.size(1) ||
        answer.size(2) != vocabulary_)
      refuse_answer(answer, fmt::format("({}, {}, {}): a score for each token at each position", target.size(0),
                                        target.size(1), vocabulary_));
  }

  torch::Tensor cross_entropy(const torch::Tensor& answer, const torch::Tensor& target, double smoothing) const {
    require_scores(answer, target);
    return F::cross_entropy(answer.flatten(0, 1), target.flatten(),
                            F::CrossEntropyFuncOptions().label_smoothing(smoothing));
  }

  std::int64_t vocabulary_;
  double smoothing_;
};

struct Fit {
  const char* task;
  const char* samples;  // in words
};

Fit fit_of(data::TargetKind target) {
  switch (target) {
    case data::TargetKind::kClass:
      return {"classification", "have a class"};
    case data::TargetKind::kValues:
      return {"regression", "have numbers to predict"};
    case data::TargetKind::kTokens:
      return {"language", "are text, with a next token for each position"};
  }
  MUSTER_CHECK(false, "a kind of target that nobody knows");
}

}  // namespace

torch::Tensor Task::divided_loss(const torch::Tensor&, const torch::Tensor&, const model::TensorTeam&) const {
  MUSTER_CHECK(false, "answers of this task come whole");
}

double Task::divided_score(const torch::Tensor&, const torch::Tensor&, const model::TensorTeam&) const {
  MUSTER_CHECK(false, "answers of this task come whole");
}

std::shared_ptr<const Task> make_task(const TaskOptions& options, const data::SampleSpec& spec) {
  const Fit fit = fit_of(spec.target);
  if (!options.name.empty() && options.name != fit.task) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("the task {} does not fit the data, whose samples {}", options.name, fit.samples),
                "loss.task", fmt::format("Set loss.task = \"{}\", or take other data.", fit.task));
  }
  switch (spec.target) {
    case data::TargetKind::kClass:
      return std::make_shared<Classification>(spec.classes, options.label_smoothing, options.class_weights);
    case data::TargetKind::kValues:
      return std::make_shared<Regression>(options.error, spec);
    case data::TargetKind::kTokens:
      return std::make_shared<Language>(spec.classes, options.label_smoothing);
  }
  MUSTER_CHECK(false, "a kind of target that nobody knows");
}

}  // namespace muster::trainer
