// Batch norm over the samples of all workers: mean and variance of a training batch are those of every worker's batch
// together, and so is the gradient. For batches so small that a worker's own statistics are too noisy.
//
// Without a group it does what torch::nn::BatchNorm2d does, bit for bit, with its parameters, buffers, options and
// names; the models of the zoo are built of it. In training mode with a group, forward() and backward() are
// collectives: every worker must compute the same layers in the same order with one batch each, so it goes with the
// strategy all_reduce and one lane a worker, or with Worker::all_reduce_gradients, and with no other (lanes of
// shared_sync must not depend on each other). In evaluation mode no worker waits for another. Thread safety: as torch
// modules.
#pragma once

#include <cstddef>
#include <ostream>

#include <torch/torch.h>

#include "muster/comm/group.h"

namespace muster::model {

class SyncBatchNorm2dImpl final : public torch::nn::NormImplBase<2, SyncBatchNorm2dImpl, torch::nn::BatchNormOptions> {
 public:
  explicit SyncBatchNorm2dImpl(const torch::nn::BatchNormOptions& options, comm::Group group = {});

  // Takes statistics over `group` from now on; a group of one is plain batch norm.
  void synchronize(comm::Group group) { group_ = std::move(group); }
  bool is_synchronized() const { return group_.size() > 1; }

  // With a group throws as Group::all_reduce, with a deadline of five minutes.
  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const torch::Tensor& input) override;

 private:
  // Counts a training batch and gives its share in the running statistics.
  double count_batch();

  comm::Group group_;
};
TORCH_MODULE(SyncBatchNorm2d);

// Gives `group` to every SyncBatchNorm2d of `module` and returns how many there are.
std::size_t synchronize_batch_norm(torch::nn::Module& module, const comm::Group& group);
// Whether any of them has a group of several workers.
bool has_synchronized_batch_norm(const torch::nn::Module& module);

}  // namespace muster::model
