// Activation recomputation (Chen et al., "Training deep nets with sublinear memory cost", 2016): a block keeps only its
// input for backward and is computed a second time there.
//
// The gradients have the same bits as without: the second time draws the same random numbers (dropout), and leaves
// the buffers (running statistics of batch norm) as the first has written them. It costs about one more forward, and a
// batch norm over several workers (SyncBatchNorm2d) meets twice.
#pragma once

#include <functional>
#include <memory>

#include <torch/torch.h>

namespace muster::model {

// Gives forward(x). Without gradients (evaluation) it only calls it. `forward` is called again in backward, on the
// thread that computes there, and must compute the same again from its input, the parameters and buffers of `block`
// and torch's random numbers alone. REQUIRES: the result is no view of `x`, and forward leaves `x` alone.
torch::Tensor recomputed(const std::shared_ptr<torch::nn::Module>& block,
                         std::function<torch::Tensor(const torch::Tensor&)> forward, const torch::Tensor& x);

}  // namespace muster::model
