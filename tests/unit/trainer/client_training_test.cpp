// What a client's steps come to, against a perceptron written out by hand in double: the pull of FedProx, the
// correction and the controls of SCAFFOLD, and the shortened gradients and the noise of DP-SGD.
#include "muster/trainer/client_training.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"

namespace muster::trainer {
namespace {

constexpr std::size_t kFeatures = 4;
constexpr std::size_t kHidden = 5;
constexpr std::size_t kClasses = 3;
constexpr double kLr = 0.3;

class ClientTrainingTest : public ::testing::Test {
 protected:
  // All samples in each step, so that their order does not matter.
  ClientTrainingTest()
      : resolved_(parse_job("[data]\nsource = \"synthetic\"\nshape = [4]\nclasses = 3\nsamples = 24\ntest_samples = 6\n"
                            "batch = 24\n[model]\nname = \"mlp\"\nhidden = [5]\n[optimizer]\nlr = 0.3\n"
                            "[federated]\nclients = 2\nper_round = 1\n",
                            "test", {})),
        sets_(open_data(resolved_.job)),
        training_(make_client_training(resolved_, sets_)),
        start_(training_->size()) {
    training_->first_values(start_);
    // Away from where all is equal.
    for (std::size_t i = 0; i < start_.size(); ++i)
      start_[i] += static_cast<float>(0.3 * std::sin(static_cast<double>(i)));
    const std::vector<federated::TensorPlace> tensors = training_->tensors();
    for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"})
      offset_.push_back(std::ranges::find(tensors, name, &federated::TensorPlace::name)->offset);
    samples_.resize(sets_.train->size());
    std::iota(samples_.begin(), samples_.end(), std::uint64_t{0});
  }

  // Weights and biases of the hidden layer, then of the last: where the numbers of each stand.
  std::size_t hidden(std::size_t unit, std::size_t feature) const { return offset_[0] + unit * kFeatures + feature; }
  std::size_t hidden_bias(std::size_t unit) const { return offset_[1] + unit; }
  std::size_t last(std::size_t label, std::size_t unit) const { return offset_[2] + label * kHidden + unit; }
  std::size_t last_bias(std::size_t label) const { return offset_[3] + label; }
  std::vector<std::size_t> places() const {
    std::vector<std::size_t> all;
    const std::size_t counts[] = {kHidden * kFeatures, kHidden, kClasses * kHidden, kClasses};
    for (std::size_t tensor = 0; tensor < 4; ++tensor) {
      for (std::size_t i = 0; i < counts[tensor]; ++i)
        all.push_back(offset_[tensor] + i);
    }
    return all;
  }
  std::vector<double> start() const { return {start_.begin(), start_.end()}; }
  std::vector<float> trained(const federated::LocalTask& task) {
    std::vector<float> update(training_->size());
    result_ = training_->train(task, start_, update);
    return update;
  }
  // Of cross entropy at one sample, in a flat array as the model's.
  std::vector<double> gradient_at(std::uint64_t sample, const std::vector<double>& model) const {
    std::vector<float> features(kFeatures);
    const auto label = static_cast<std::size_t>(sets_.train->read(sample, features));
    std::vector<double> units(kHidden);
    for (std::size_t u = 0; u < kHidden; ++u) {
      units[u] = model[hidden_bias(u)];
      for (std::size_t f = 0; f < kFeatures; ++f)
        units[u] += model[hidden(u, f)] * features[f];
      units[u] = std::max(units[u], 0.0);
    }
    std::vector<double> scores(kClasses);
    double sum = 0;
    for (std::size_t c = 0; c < kClasses; ++c) {
      scores[c] = model[last_bias(c)];
      for (std::size_t u = 0; u < kHidden; ++u)
        scores[c] += model[last(c, u)] * units[u];
      scores[c] = std::exp(scores[c]);
      sum += scores[c];
    }
    std::vector<double> gradient(model.size());
    for (std::size_t c = 0; c < kClasses; ++c) {
      const double error = scores[c] / sum - (c == label ? 1 : 0);
      gradient[last_bias(c)] = error;
      for (std::size_t u = 0; u < kHidden; ++u) {
        gradient[last(c, u)] = error * units[u];
        if (units[u] > 0) gradient[hidden_bias(u)] += error * model[last(c, u)];
      }
    }
    for (std::size_t u = 0; u < kHidden; ++u) {
      for (std::size_t f = 0; f < kFeatures; ++f)
        gradient[hidden(u, f)] = gradient[hidden_bias(u)] * features[f];
    }
    return gradient;
  }
  std::vector<double> mean_gradient(const std::vector<double>& model, double clip = 1e300) const {
    std::vector<double> mean(model.size());
    for (const std::uint64_t sample : samples_) {
      const std::vector<double> gradient = gradient_at(sample, model);
      double squares = 0;
      for (const double value : gradient)
        squares += value * value;
      const double factor = std::min(1.0, clip / std::sqrt(squares));
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean[i] += factor * gradient[i] / static_cast<double>(samples_.size());
    }
    return mean;
  }

  const ResolvedJob resolved_;
  const Datasets sets_;
  const std::unique_ptr<federated::LocalTraining> training_;
  std::vector<float> start_;
  std::vector<std::size_t> offset_;
  std::vector<std::uint64_t> samples_;
  federated::LocalResult result_;
};

// Li et al. 2020: the gradient of f(y) + prox / 2 |y - x|^2, in each of several steps.
TEST_F(ClientTrainingTest, ProximalStepsAreThoseOfThePaper) {
  const std::vector<float> update = trained({.samples = samples_, .epochs = 5, .prox = 0.8});
  std::vector<double> y = start();
  for (int step = 0; step < 5; ++step) {
    const std::vector<double> gradient = mean_gradient(y);
    for (const std::size_t i : places())
      y[i] -= kLr * (gradient[i] + 0.8 * (y[i] - start_[i]));
  }
  for (const std::size_t i : places())
    EXPECT_NEAR(update[i], y[i] - start_[i], 1e-5) << i;
  EXPECT_EQ(result_.steps, 5U);
}

// Karimireddy et al. 2020: y -= lr (g - c_i + c), and option II, c_i' = c_i - c + (x - y) / (K lr), is then the mean
// gradient of the steps.
TEST_F(ClientTrainingTest, CorrectedStepsAndTheirControlAreThoseOfThePaper) {
  std::vector<float> correction(training_->parameters());
  for (const std::size_t i : places())
    correction[i] = static_cast<float>(0.1 * std::cos(static_cast<double>(i)));
  const std::vector<float> update = trained({.samples = samples_, .epochs = 4, .correction = correction});
  std::vector<double> y = start();
  std::vector<double> mean(y.size());
  for (int step = 0; step < 4; ++step) {
    const std::vector<double> gradient = mean_gradient(y);
    for (const std::size_t i : places()) {
      mean[i] += gradient[i] / 4;
      y[i] -= kLr * (gradient[i] + correction[i]);
    }
  }
  for (const std::size_t i : places()) {
    EXPECT_NEAR(update[i], y[i] - start_[i], 1e-5) << i;
    const double moved = -update[i] / (static_cast<double>(result_.steps) * result_.lr);
    EXPECT_NEAR(moved - correction[i], mean[i], 1e-4) << i;
  }
}

// Abadi et al. 2016, with noise too small to see: each sample's gradient is shortened, and the sum divided by the
// samples of a step.
TEST_F(ClientTrainingTest, PrivateStepsShortenTheGradientOfEverySample) {
  const double clip = 0.4;
  const std::vector<float> update =
      trained({.samples = samples_, .epochs = 3, .privacy = {.clip = clip, .noise = 1e-9}});
  std::vector<double> y = start();
  std::vector<double> whole = start();
  for (int step = 0; step < 3; ++step) {
    const std::vector<double> gradient = mean_gradient(y, clip);
    const std::vector<double> unclipped = mean_gradient(whole);
    for (const std::size_t i : places()) {
      y[i] -= kLr * gradient[i];
      whole[i] -= kLr * unclipped[i];
    }
  }
  double apart = 0;
  for (const std::size_t i : places()) {
    EXPECT_NEAR(update[i], y[i] - start_[i], 1e-5) << i;
    apart = std::max(apart, std::abs(whole[i] - y[i]));
  }
  EXPECT_GT(apart, 0.01) << "nothing was shortened";
  EXPECT_EQ(result_.loss, 0) << "nothing would protect it";
}

// The noise has the deviation that the accountant counts on, and is the key's.
TEST_F(ClientTrainingTest, PrivateStepsHaveTheNoiseThatWasAskedFor) {
  federated::LocalTask task{.samples = samples_, .privacy = {.clip = 2, .noise = 50}};
  double squares = 0;
  std::size_t count = 0;
  for (unsigned char round = 0; round < 40; ++round) {
    task.key[0] = std::byte{round};
    const std::vector<float> update = trained(task);
    EXPECT_EQ(trained(task), update);
    for (const std::size_t i : places()) {
      squares += static_cast<double>(update[i]) * update[i];
      ++count;
    }
  }
  const double expected = kLr * 50 * 2 / static_cast<double>(samples_.size());
  // Of 600 numbers the deviation is known to one part in 35; the gradients are nothing beside it.
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(count)), expected, 0.15 * expected);
}

}  // namespace
}  // namespace muster::trainer
