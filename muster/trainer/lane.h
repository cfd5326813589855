// A lane: one part of a step's batch, while this worker computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <torch/torch.h>

#include "muster/strategies/lane_result.h"

namespace muster::trainer {

class ModelParts;  // model_parts.h

// How a loss is backpropagated.
struct Backward {
  std::vector<std::string> parts{};  // of the model: only these get gradients. Empty: all
  bool retain_graph = false;         // another backward() of the lane goes through the same graph
};

// Its tensors are views of memory that the next lane reuses: clone() what is to outlive the turn of the loop.
class Lane {
 public:
  // What its executor (lane_executor.h) begins it with, beside the members that everybody sees.
  struct Start {
    double weight = 1;             // its share of the batch
    double samples = 0;            // how many the mean loss is over
    bool single_backward = false;  // its gradients are sent on while they come
    bool carries_figures = true;   // false: the strategy has no place for what report() says
    const ModelParts* parts = nullptr;
  };
  Lane() = default;
  explicit Lane(const Start& start) : start_(start) {}

  torch::Tensor data;
  torch::Tensor target;
  std::vector<torch::Tensor> tensors;  // its rows of those that Session::step() was given
  std::size_t index = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::span<const std::uint64_t> ids;  // the samples, as the data set numbers them
  bool repeated = false;               // computed once more, to verify it

  // Backpropagates `loss`, the mean over this lane's samples, weighted by the lane's share of the batch.
  // Call it once a lane, or several times for a loss in parts: gradients add up, and so do the reported losses. What a
  // lane's random numbers and buffers come to depends on the lane alone.
  void backward(const torch::Tensor& loss, const Backward& how = {});
  // Gives gradients to one part of the model only: a generator that is trained through its critic, say. A part that has
  // none from any lane of a step is not changed by it.
  void backward(const torch::Tensor& loss, std::string_view part) { backward(loss, {.parts = {std::string(part)}}); }
  // This lane's samples of a torch::data data set (map-style, as numbered(*dataset.size()) counts it), with the
  // transforms that it was given: with Stack<>() one example whose tensors have all of them. Read here and now, with
  // this lane's random numbers.
  template <typename TorchDataset>
  auto batch_of(TorchDataset& dataset) const {
    return dataset.get_batch(std::vector<std::size_t>(ids.begin(), ids.end()));
  }
  // A figure of this lane beside its loss, a mean over its samples: StepOutcome::figure(name) is the mean over those of
  // the step. Throws Error{kInvalidInput} as compute::Figures::add(), Error{kUnsupported} with parameter servers.
  void report(std::string_view name, double value);
  void report(std::string_view name, const torch::Tensor& value) { report(name, value.item<double>()); }
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
