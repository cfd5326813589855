// A model of one's own in stages: a torch::nn::Sequential, or any module that names its blocks, which several workers
// compute one after the other (docs/model-parallel.md), with the bits of one worker.
//
//   auto session = muster::synchronize_stages(worker, net, muster::Sgd{.lr = 0.1}, {.batch = 64, .lanes = 8},
//                                             {.stages = 2, .sample = torch::zeros({1, 784})});
//   session.train_until(1000, dataset, [](auto& answer, auto& target) { return cross_entropy(answer, target); });
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/model/named_block.h"
#include "muster/trainer/session.h"
#include "muster/trainer/worker.h"

namespace muster::trainer {

struct StagedModel;  // staged_lanes.h

struct StageOptions {
  std::size_t stages = 2;  // the workers are rows of so many; one worker alone computes all of them
  torch::Tensor sample{};  // one sample or more as the net takes them: what goes from module to module is measured
  std::string schedule = "1f1b";   // "gpipe", "interleaved"
  std::size_t chunks = 2;          // of a stage, with "interleaved"
  std::vector<std::string> cut{};  // names of modules that parts begin with, all but the first; empty: about equal work
};

class StagedSession {
 public:
  // The mean over a lane's samples. Called by the worker with the last stage.
  using Loss = std::function<torch::Tensor(const torch::Tensor& answer, const torch::Tensor& target)>;

  StagedSession(Session session, std::shared_ptr<const StagedModel> staged);

  // One whole step; lost workers are replaced meanwhile.
  strategies::StepOutcome step(const std::shared_ptr<const data::Dataset>& dataset, const Loss& loss);
  // Steps until `step` of them are committed, since the beginning and by whomever: lost workers are replaced meanwhile.
  // Fewer only when stop_requested().
  void train_until(std::uint64_t step, const std::shared_ptr<const data::Dataset>& dataset, const Loss& loss);
  // Who holds what, a line for each stage.
  std::vector<std::string> describe() const;
  // Everything else is as with any session: evaluate, checkpoint, resume, save. Not lanes(), whose lanes have one
  // worker each.
  Session& session() { return session_; }

 private:
  Session session_;
  std::shared_ptr<const StagedModel> staged_;
};

// Takes over the parameters of `net`, as synchronize(). Throws Error{kInvalidInput} for a number of workers that are no
// whole rows, an unknown schedule or module, more stages than modules, and a missing sample; Error{kUnsupported} for
// modules that do not give a batch of fp32 rows, and for strategies other than shared_sync.
StagedSession synchronize_stages(const Worker& worker, const torch::nn::Sequential& net,
                                 const compute::OptimizerOptions& optimizer, const SessionOptions& options,
                                 const StageOptions& stages);

// Modules of a model, with the names that StageOptions::cut knows them by, in the order in which it computes them.
using Blocks = std::vector<model::NamedBlock>;

// The same for a module of any kind: `blocks` one after the other are what it computes, and everything that it trains
// is in one of them.
//
//   auto session = muster::synchronize_stages(worker, net, {{"stem", net->stem}, {"head", net->head}}, ...);
StagedSession synchronize_stages(const Worker& worker, const std::shared_ptr<torch::nn::Module>& net,
                                 const Blocks& blocks, const compute::OptimizerOptions& optimizer,
                                 const SessionOptions& options, const StageOptions& stages);

}  // namespace muster::trainer
