// A lane: one part of a step's batch, while this worker computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <torch/torch.h>

#include "muster/strategies/lane_result.h"

namespace muster::trainer {

// Its tensors are views of memory that the next lane reuses: clone() what is to outlive the turn of the loop.
class Lane {
 public:
  // What its executor (lane_executor.h) begins it with, beside the members that everybody sees.
  struct Start {
    double weight = 1;             // its share of the batch
    double samples = 0;            // how many the mean loss is over
    bool single_backward = false;  // its gradients are sent on while they come
  };
  Lane() = default;
  explicit Lane(const Start& start) : start_(start) {}

  torch::Tensor data;
  torch::Tensor target;
  std::size_t index = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::span<const std::uint64_t> ids;  // the samples, as the data set numbers them
  bool repeated = false;               // computed once more, to verify it

  // Backpropagates `loss`, the mean over this lane's samples, weighted by the lane's share of the batch.
  // Call it once a lane, or several times for a loss in parts.
  void backward(const torch::Tensor& loss);
  // Tells every worker in this step's outcome that this one was asked to stop.
  void request_stop() { told_.wishes.stop = true; }
  // Tells every worker in this step's outcome that this one knows of the job's changes up to `number`.
  void propose_change(std::uint64_t number) { told_.wishes.change = number; }
  // Tells every worker in this step's outcome that a checkpoint is wanted after it.
  void request_checkpoint() { told_.wishes.save = true; }
  // For the step's second figure, a sum over this lane's samples: correct answers, say.
  void add_score(double score) { told_.report.score += score; }

  // What all of the above has come to, for those who compute lanes.
  bool has_backward() const { return has_backward_; }
  const strategies::LaneResult& told() const { return told_; }

 private:
  Start start_;
  bool has_backward_ = false;
  strategies::LaneResult told_;
};

}  // namespace muster::trainer
