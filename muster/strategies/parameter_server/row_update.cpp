// One loop for all optimizers, instantiated for each: fetch a row ahead, update the one that has arrived. Powers for
// bias corrections are kept in a table, since many rows share their number of updates.
#include "muster/strategies/parameter_server/row_update.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/kernel.h"
#include "muster/compute/power.h"

namespace muster::strategies {
namespace {

constexpr std::uint32_t kKeptCorrections = 1024;
constexpr std::size_t kAhead = 16;  // rows between prefetch and update: what a core can have under way

struct Sgd {
  float scale, lr;

  MUSTER_KERNEL_BODY void run(float* __restrict w, RowHead&, const float* __restrict g, std::size_t width) const {
    for (std::size_t i = 0; i < width; ++i)
      w[i] -= lr * (scale * g[i]);
  }
};

struct AdaGrad {
  float scale, lr, eps;

  // Eight sums whatever the processor: their order is part of the result.
  MUSTER_KERNEL_BODY float sum_of_squares(const float* __restrict g, std::size_t width) const {
    float sums[8] = {};
    const std::size_t whole = width / 8 * 8;
    for (std::size_t i = 0; i < whole; i += 8) {
      for (std::size_t j = 0; j < 8; ++j)
        sums[j] += (scale * g[i + j]) * (scale * g[i + j]);
    }
    for (std::size_t i = whole; i < width; ++i)
      sums[i - whole] += (scale * g[i]) * (scale * g[i]);
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  }

  MUSTER_KERNEL_BODY void run(float* __restrict w, RowHead& head, const float* __restrict g, std::size_t width) const {
    head.accumulator += sum_of_squares(g, width) / static_cast<float>(width);
    const float rate = lr / (std::sqrt(head.accumulator) + eps);
    for (std::size_t i = 0; i < width; ++i)
      w[i] -= rate * (scale * g[i]);
  }
};

struct Adam {
  float scale, beta1, rest1, beta2, rest2, eps;
  double lr;
  const BiasCorrections* corrections;

  MUSTER_KERNEL_BODY void run(float* __restrict row, RowHead& head, const float* __restrict g,
                              std::size_t width) const {
    const BiasCorrections::Pair correction = corrections->of(head.updates);
    const float root = correction.root;
    const auto rate = static_cast<float>(lr / correction.first);
    float* __restrict const w = row;
    float* __restrict const m = row + width;
    float* __restrict const v = row + 2 * width;
    for (std::size_t i = 0; i < width; ++i) {
      const float d = scale * g[i];
      const float first = beta1 * m[i] + rest1 * d;
      const float second = beta2 * v[i] + rest2 * d * d;
      m[i] = first;
      v[i] = second;
      w[i] -= rate * first / (std::sqrt(second) * root + eps);
    }
  }
};

template <class Loop>
MUSTER_KERNEL_BODY void run_all(const Loop& loop, std::uint64_t step, std::span<const RowTarget> targets,
                                std::size_t width, std::size_t parts) {
  const std::size_t row_bytes = kHeadBytes + parts * width * sizeof(float);
  for (std::size_t i = 0; i < std::min(kAhead, targets.size()); ++i)
    prefetch_row(targets[i].row, row_bytes);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (i + kAhead < targets.size()) prefetch_row(targets[i + kAhead].row, row_bytes);
    RowHead& head = *targets[i].row;
    head.last_step = std::max(head.last_step, step);  // updates may come late
    if (head.updates != std::numeric_limits<std::uint32_t>::max()) ++head.updates;
    loop.run(floats_of(&head), head, targets[i].gradient, width);
  }
}

MUSTER_KERNEL void sgd_rows(const Sgd& loop, std::uint64_t step, std::span<const RowTarget> targets,
                            std::size_t width) {
  run_all(loop, step, targets, width, 1);
}

MUSTER_KERNEL void ada_grad_rows(const AdaGrad& loop, std::uint64_t step, std::span<const RowTarget> targets,
                                 std::size_t width) {
  run_all(loop, step, targets, width, 1);
}

MUSTER_KERNEL void adam_rows(const Adam& loop, std::uint64_t step, std::span<const RowTarget> targets,
                             std::size_t width) {
  run_all(loop, step, targets, width, 3);
}

}  // namespace

BiasCorrections::BiasCorrections(double beta1, double beta2) : beta1_(beta1), beta2_(beta2), kept_(1) {
  for (std::uint32_t updates = 1; updates < kKeptCorrections; ++updates)
    kept_.push_back(compute(updates));
}

BiasCorrections::Pair BiasCorrections::compute(std::uint32_t updates) const {
  const double second = 1 - compute::whole_power(beta2_, updates);
  return {1 - compute::whole_power(beta1_, updates), static_cast<float>(1 / std::sqrt(second))};
}

void update_rows(const RowUpdate& update, std::span<const RowTarget> targets, std::size_t width) {
  const auto scale = static_cast<float>(update.scale);
  const auto lr = static_cast<float>(update.lr);
  const auto eps = static_cast<float>(update.eps);
  switch (update.optimizer) {
    case SparseOptimizer::kSgd:
      return sgd_rows({scale, lr}, update.step, targets, width);
    case SparseOptimizer::kAdaGrad:
      return ada_grad_rows({scale, lr, eps}, update.step, targets, width);
    case SparseOptimizer::kAdam:
      return adam_rows(
          {scale, static_cast<float>(update.beta1), static_cast<float>(1 - update.beta1),
           static_cast<float>(update.beta2), static_cast<float>(1 - update.beta2), eps, update.lr, update.corrections},
          update.step, targets, width);
  }
}

}  // namespace muster::strategies
