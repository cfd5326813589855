// A task: what a model is asked for. It knows the loss that trains it and the figures that judge it.
//
//   classification  cross-entropy over classes; accuracy, top5 (of more than five classes), auc (of two)
//   regression      squared, absolute or Huber error; mae, mse and r2, in the units of the data
//   language        cross-entropy of the next token at every position; accuracy, perplexity
//
// An evaluation is a list of numbers for each batch, so that workers can share it: whoever measures a batch, the same
// numbers come together in the same order. Thread safety: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/data/dataset.h"
#include "muster/model/tensor_team.h"
#include "muster/trainer/metrics.h"

namespace muster::trainer {

class Task {
 public:
  virtual ~Task() = default;

  // The figure beside the loss while training, and the first metric of an evaluation.
  virtual std::string score_name() const = 0;
  // What is minimised: the mean over the samples. Throw Error{kMismatch} for an answer of another shape than the
  // task's.
  virtual torch::Tensor loss(const torch::Tensor& answer, const torch::Tensor& target) const = 0;
  // The sum over the samples.
  virtual double score(const torch::Tensor& answer, const torch::Tensor& target) const = 0;
  // The same of an answer of which each member of `team` has its share of the classes. Of tasks with a class at every
  // position, whose answers are large; others' come whole.
  virtual torch::Tensor divided_loss(const torch::Tensor& answer, const torch::Tensor& target,
                                     const model::TensorTeam& team) const;
  virtual double divided_score(const torch::Tensor& answer, const torch::Tensor& target,
                               const model::TensorTeam& team) const;

  // Of each sample by itself, without smoothing: which ones the model does worst on. A vector.
  virtual torch::Tensor sample_losses(const torch::Tensor& answer, const torch::Tensor& target) const = 0;

  // How many numbers measure() gives for a batch and for each of its samples.
  virtual std::size_t batch_figures() const = 0;
  virtual std::size_t sample_figures() const { return 0; }
  virtual void measure(const torch::Tensor& answer, const torch::Tensor& target, std::span<double> batch,
                       std::span<double> samples) const = 0;
  // From the figures of all batches, in their order.
  virtual Evaluation judge(std::span<const double> batches, std::span<const double> samples) const = 0;
};

struct TaskOptions {
  std::string name{};          // empty: what the targets of the data set suggest
  double label_smoothing = 0;  // classification, language
  std::string error = "mse";   // regression: "mse", "mae" or "huber"
  // classification: how much samples of each class count in the loss that trains, and in nothing else; empty: alike.
  std::vector<double> class_weights{};
};

// Throws Error{kInvalidInput} for a task that the samples do not fit.
std::shared_ptr<const Task> make_task(const TaskOptions& options, const data::SampleSpec& spec);

}  // namespace muster::trainer
