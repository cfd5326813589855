// Evaluation of a model on a data set: the mean loss and the metrics of its task, the same bits on every run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <torch/torch.h>

#include "muster/comm/group.h"
#include "muster/data/dataset.h"
#include "muster/trainer/evaluation_batch.h"
#include "muster/trainer/lane.h"
#include "muster/trainer/metrics.h"

namespace muster::trainer {

class Task;  // task.h

struct EvaluationOptions {
  std::shared_ptr<const Task> task{};  // empty: what the targets of the data set suggest
  std::uint64_t batch = kEvaluationBatch;
  int loader_threads = 1;
  std::function<void()> share_done = [] {};  // called when this worker waits for the shares of the others
  // The workers that share the work: each takes every size()-th batch. All must call; all get the same result, the same
  // bits as one worker alone. When one is lost the others can do without: each then computes all shares.
  comm::Group group{};
  bool alone_if_lost = true;  // false: throws kPeerLost then
  // Called with each batch of this worker: its samples, what the model said and what it should have said.
  std::function<void(std::span<const std::uint64_t>, const torch::Tensor&, const torch::Tensor&)> each{};
  // Called after each batch with the samples done, by all workers if they are equally fast; returning false ends
  // the evaluation with no result, on all workers.
  std::function<bool(std::uint64_t)> progress{};
};

using ForwardFunction = std::function<torch::Tensor(const torch::Tensor&)>;

// Puts `module` into evaluation mode, runs `forward` over all samples in order, and puts the mode back.
// Throws Error{kCompute} or what the data set throws.
std::optional<Evaluation> evaluate(torch::nn::Module& module, const ForwardFunction& forward,
                                   const std::shared_ptr<const data::Dataset>& dataset,
                                   const EvaluationOptions& options = {});

// Figures of the program's own, by Lane::report(); `lane` is a batch, with its number as index, and has no backward().
using MeasureFunction = std::function<void(Lane& lane)>;

// As above, with what `function` reports of each batch: means over the samples. Random numbers that it draws depend on
// the seed and the batch alone. Of the options `batch`, `loader_threads` and `group` are used; throws kPeerLost when
// one of the group is lost.
compute::Figures measure(torch::nn::Module& module, const MeasureFunction& function,
                         const std::shared_ptr<const data::Dataset>& dataset, std::uint64_t seed,
                         const EvaluationOptions& options = {});

}  // namespace muster::trainer
