// The optimizers of embedding tables as kernels over a batch of rows that lie anywhere. Internal to sparse_table.
//
// A row is updated only when its key comes; what an optimizer remembers belongs to the row. With d = scale * gradient:
//   SGD                w' = w - lr * d
//   AdaGrad, row-wise  a' = a + mean(d * d);  w' = w - lr * d / (sqrt(a') + eps)     one number a per row
//   Adam, lazy         compute/adam.cpp without weight decay, where the step is the number of this row's updates
// Arithmetic is in single precision, with the constants of a row computed in double. The bits are the same on every
// processor (base/kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::strategies {

enum class SparseOptimizer : std::uint32_t { kSgd = 0, kAdaGrad = 1, kAdam = 2 };  // part of the saved form

// Arrays of `width` floats that lie one behind the other in a row: the parameters, and Adam's moments.
constexpr std::size_t parts_of(SparseOptimizer optimizer) {
  return optimizer == SparseOptimizer::kAdam ? 3 : 1;
}

// What a row remembers beside floats.
struct RowState {
  std::uint64_t last_step = 0;  // the latest of its updates
  float accumulator = 0;        // AdaGrad's a
  std::uint32_t updates = 0;    // stops at the largest number
};
static_assert(sizeof(RowState) == 16);

struct RowTarget {
  float* row;
  RowState* state;
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
