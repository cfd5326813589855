// synchronize(): a model of the user's, trained by all workers as one.
#pragma once

#include <memory>

#include <torch/torch.h>

#include "muster/trainer/session.h"
#include "muster/trainer/worker.h"

namespace muster::trainer {

// Takes over the parameters of `net` and returns the session that trains them. Every worker calls it with the same
// model and options, which is checked (Error{kMismatch} names what differs); the first worker's parameters count.
inline Session synchronize(const Worker& worker, std::shared_ptr<torch::nn::Module> net,
                           const compute::OptimizerOptions& optimizer, SessionOptions options = {}) {
  // Where lost workers are replaced the strategy gathers those who are there.
  if (worker.supervised() && options.strategy == "shared_sync")
    options.supervised = worker.supervised();
  else
    options.group = worker.group();
  if (worker.supervised()) options.stop_on_signals = true;
  return Session(std::move(net), optimizer, options);
}

// The same for LibTorch's module holders (TORCH_MODULE(Net)).
template <typename Contained>
Session synchronize(const Worker& worker, const torch::nn::ModuleHolder<Contained>& net,
                    const compute::OptimizerOptions& optimizer, const SessionOptions& options = {}) {
  return synchronize(worker, std::static_pointer_cast<torch::nn::Module>(net.ptr()), optimizer, options);
}

}  // namespace muster::trainer
