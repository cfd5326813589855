// The optimizers of embedding tables as kernels over a batch of rows that lie anywhere. Internal to sparse_table.
//
// A row is updated only when its key comes; what an optimizer remembers belongs to the row. With d = scale * gradient:
//   SGD                w' = w - lr * d
//   AdaGrad, row-wise  a' = a + mean(d * d);  w' = w - lr * d / (sqrt(a') + eps)     one number a per row
//   Adam, lazy         compute/adam.cpp without weight decay, where the step is the number of this row's updates
// Arithmetic is in single precision, with the constants of a row computed in double. The bits are the same on every
// processor (base/kernel.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/strategies/parameter_server/table_options.h"

namespace muster::strategies {

// Arrays of `width` floats that lie one behind the other in a row: the parameters, and Adam's moments.
constexpr std::size_t parts_of(SparseOptimizer optimizer) {
  return optimizer == SparseOptimizer::kAdam ? 3 : 1;
}

// What stands before the floats of a row, and on the same page of memory: an update waits for one place, not for two.
struct RowHead {
  std::int64_t key = 0;
  std::uint64_t last_step = 0;  // the latest of its updates
  float accumulator = 0;        // AdaGrad's a
  std::uint32_t updates = 0;    // stops at the largest number
};
static_assert(sizeof(RowHead) == 24);
constexpr std::size_t kHeadBytes = 32;  // rows, and so their floats, begin at a multiple of it

inline float* floats_of(RowHead* row) {
  return reinterpret_cast<float*>(reinterpret_cast<std::byte*>(row) + kHeadBytes);
}

// Tells the processor that the row will be needed. Long rows it goes on with by itself.
inline void prefetch_row(const void* row, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMostBytes = 16 * kLine;
  for (std::size_t at = 0; at < std::min(bytes, kMostBytes); at += kLine)
    __builtin_prefetch(static_cast<const std::byte*>(row) + at);
}

struct RowTarget {
  RowHead* row;
  const float* gradient;
};

// 1 - beta ^ n for both betas. Those of the first updates are kept: a row's number is its own, and powers take time.
class BiasCorrections {
 public:
  struct Pair {
    double first;
    float root;  // 1 / sqrt(second)
  };
  BiasCorrections(double beta1, double beta2);
  // REQUIRES: updates > 0.
  Pair of(std::uint32_t updates) const { return updates < kept_.size() ? kept_[updates] : compute(updates); }

 private:
  Pair compute(std::uint32_t updates) const;
  double beta1_;
  double beta2_;
  std::vector<Pair> kept_;
};

struct RowUpdate {
  SparseOptimizer optimizer = SparseOptimizer::kSgd;
  double lr = 0;
  double scale = 1;
  std::uint64_t step = 0;
  double eps = 0;
  double beta1 = 0;  // Adam's
  double beta2 = 0;
  const BiasCorrections* corrections = nullptr;  // Adam's
};

// Updates every target once. REQUIRES: no row twice.
void update_rows(const RowUpdate& update, std::span<const RowTarget> targets, std::size_t width);

}  // namespace muster::strategies
