// A block of a model: where recomputation cuts, and where a model can be cut into stages.
//
// Random numbers (dropout) are keyed by the lane and the block: every block begins with a seed of its own, which
// follows from the lane's seed and the number of blocks entered before, and from nothing that these have drawn. So a
// lane gives the same bits in one process or through several. Outside of blocks numbers are drawn on from where the
// last block has left them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <torch/torch.h>

namespace muster::model {

// Gives forward(x), which computes `block`, with the block's own random numbers if it trains; with `recompute` as
// recompute.h says, whose requirements then hold.
torch::Tensor run_block(const std::shared_ptr<torch::nn::Module>& block,
                        std::function<torch::Tensor(const torch::Tensor&)> forward, const torch::Tensor& x,
                        bool recompute);

// What torch's generator is seeded with where a lane has entered so many blocks: 0 gives the lane's own seed. A process
// that computes the blocks from number k on seeds with block_seed(lane, k).
std::uint64_t block_seed(std::uint64_t lane_seed, std::size_t blocks_entered);

}  // namespace muster::model
