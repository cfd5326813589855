// synchronize(): a model of the user's, trained by all workers as one.
#pragma once

#include <memory>
#include <vector>

#include <torch/torch.h>

#include "muster/trainer/session.h"
#include "muster/trainer/worker.h"

namespace muster::trainer {

// Takes over the parameters of `net` and returns the session that trains them. Every worker calls it with the same
// model and options, which is checked (Error{kMismatch} names what differs); the first worker's parameters count.
Session synchronize(const Worker& worker, std::shared_ptr<torch::nn::Module> net,
                    const compute::OptimizerOptions& optimizer, SessionOptions options = {});

// The same for a model in parts: {{"actor", actor, muster::Adam{}}, {"critic", critic, muster::Sgd{.lr = 0.01}}}.
Session synchronize(const Worker& worker, std::vector<ModelPart> parts, SessionOptions options = {});

// The same for LibTorch's module holders (TORCH_MODULE(Net)).
template <typename Contained>
Session synchronize(const Worker& worker, const torch::nn::ModuleHolder<Contained>& net,
                    const compute::OptimizerOptions& optimizer, const SessionOptions& options = {}) {
  return synchronize(worker, std::static_pointer_cast<torch::nn::Module>(net.ptr()), optimizer, options);
}

}  // namespace muster::trainer
