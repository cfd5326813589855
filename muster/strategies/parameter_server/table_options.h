// What an embedding table on parameter servers is to be like (sparse_table.h).
#pragma once

#include <cstdint>
#include <string>

namespace muster::strategies {

enum class SparseOptimizer : std::uint32_t { kSgd = 0, kAdaGrad = 1, kAdam = 2 };  // part of the saved form

constexpr std::uint32_t kMostAdmitAfter = 1u << 30;

struct TableOptions {
  std::string name;
  std::uint32_t width = 0;  // floats of a row
  SparseOptimizer optimizer = SparseOptimizer::kSgd;
  double eps = 1e-8;               // AdaGrad's and Adam's
  double beta1 = 0.9;              // Adam's
  double beta2 = 0.999;            // Adam's
  double initial_accumulator = 0;  // AdaGrad's
  std::uint64_t seed = 0;
  double init_scale = 0.01;       // initial rows are uniform in [-init_scale, init_scale)
  std::uint32_t admit_after = 1;  // the push of a key that makes its row: gradients of those before are dropped
  std::uint64_t evict_after = 0;  // steps without a push after which evict() removes a row; 0: never
};

}  // namespace muster::strategies
