// The promise of kernel.h: the same bits from every machine code that a kernel is compiled to.
//
// The hashes below are the bits. This file is built twice, with the kernels as Muster ships them (AVX2 where the
// processor has it) and with baseline x86-64 only; sanitizer builds and other compilers must give the same hashes,
// too. A changed hash means that every job's result changes: that needs a line in the CHANGELOG and a new checkpoint
// format version.
#include <gtest/gtest.h>

#include "muster/base/hash.h"
#include "muster/compute/optimizer.h"
#include "muster/compute/reduce.h"
#include "unit/compute/samples.h"

namespace muster::compute {
namespace {

// 5 steps over 2 blocks and a half of a tile more, from zero state, with the trust ratio where there is one.
std::string bits_of(const OptimizerOptions& options) {
  constexpr std::size_t kSize = 2 * 4096 + 513;
  const auto optimizer = make_optimizer(options);
  std::vector<float> w = samples(kSize, 1), w_out(kSize);
  std::array<std::vector<float>, kMaxSlots> state, state_out;
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(optimizer->slots()); ++slot) {
    state[slot].resize(kSize);
    state_out[slot].resize(kSize);
  }
  for (std::uint64_t number = 1; number <= 5; ++number) {
    const std::vector<float> g = samples(kSize, 100 + number, 0.1);
    const TensorStep step{base_lr(options), weight_decay(options), true, number};
    const BlockInput input{w, g, {state[0], state[1]}, 0.7F};
    const double ratio = optimizer->trust_ratio(optimizer->norms(input, step), step);
    optimizer->update(input, step, ratio, {w_out, {state_out[0], state_out[1]}});
    w.swap(w_out);
    state.swap(state_out);
  }
  Sha256 hash;
  hash.update(std::as_bytes(std::span(w)));
  for (const auto& slot : state)
    hash.update(std::as_bytes(std::span(slot)));
  return hash.finish().substr(0, 16);
}

TEST(KernelBits, Optimizers) {
  EXPECT_EQ(bits_of(Sgd{}), "ae60c5ed3c0e2500");
  EXPECT_EQ(bits_of(Sgd{.momentum = 0.9, .dampening = 0.1, .weight_decay = 1e-4}), "0770048b49996b27");
  EXPECT_EQ(bits_of(Sgd{.momentum = 0.9, .weight_decay = 1e-4, .nesterov = true}), "ad8e1c6ea63c0c85");
  EXPECT_EQ(bits_of(Adam{}), "f1020b7ce9b81215");
  EXPECT_EQ(bits_of(Adam{.weight_decay = 1e-2}), "07b960c20194c468");
  EXPECT_EQ(bits_of(AdamW{}), "e185fae9177b9d7e");
  EXPECT_EQ(bits_of(Lars{}), "1eb11004dda03577");
  EXPECT_EQ(bits_of(Lars{.nesterov = true}), "b3c76ba31f241431");
  EXPECT_EQ(bits_of(Lamb{}), "a2a0d5ddf332c00a");
}

TEST(KernelBits, Reductions) {
  constexpr std::size_t kSize = 4 * 1024 + 37;
  std::vector<std::vector<float>> lanes;
  std::vector<const float*> pointers;
  for (std::uint64_t lane = 0; lane < 13; ++lane)
    lanes.push_back(samples(kSize, lane));
  for (const auto& lane : lanes)
    pointers.push_back(lane.data());
  std::vector<float> sum(kSize);
  reduce_lanes(pointers, 0, sum);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(sum)));
  const double squares = examine(sum).squares;
  hash.update(std::as_bytes(std::span(&squares, 1)));
  EXPECT_EQ(hash.finish().substr(0, 16), "9e3a0c34c9919c18");
}

}  // namespace
}  // namespace muster::compute
