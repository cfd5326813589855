// The chain of seeds is kept where torch keeps it: the generator knows what it was seeded with last, and gives that
// back with its state, so that recomputation goes through the same chain.
#include "muster/model/block.h"

#include <mutex>
#include <utility>

#include "muster/base/random.h"
#include "muster/model/recompute.h"

namespace muster::model {
namespace {

std::uint64_t next_seed(std::uint64_t seed) {
  return derive_seed({.seed = seed, .purpose = Purpose::kBlock});
}

void enter_block() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(next_seed(generator.current_seed()));
}

}  // namespace

torch::Tensor run_block(const std::shared_ptr<torch::nn::Module>& block,
                        std::function<torch::Tensor(const torch::Tensor&)> forward, const torch::Tensor& x,
                        bool recompute) {
  if (block->is_training()) enter_block();
  return recompute ? recomputed(block, std::move(forward), x) : forward(x);
}

std::uint64_t block_seed(std::uint64_t lane_seed, std::size_t blocks_entered) {
  std::uint64_t seed = lane_seed;
  for (std::size_t i = 0; i < blocks_entered; ++i)
    seed = next_seed(seed);
  return seed;
}

}  // namespace muster::model
