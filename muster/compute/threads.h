// Threads of LibTorch and of the BLAS below it, set explicitly and always: gradient bits change with either number.
#pragma once

#include <string>

#include "muster/compute/math_kernels.h"

namespace muster::compute {

// Sets ATen's intra-op and the BLAS's threads for this process. Call before the first tensor operation. REQUIRES: > 0.
void set_threads(int threads);

struct ComputeLibraries {
  MathKernels kernels;  // and LibTorch's version
  std::string blas;     // name and version, as the library itself says
  int aten_threads = 0;
  int blas_threads = 0;  // 0: the BLAS gives no count (then it follows ATen's OpenMP)
  bool cuda = false;     // LibTorch was built with CUDA; Muster itself was only ever run on CPUs
};
ComputeLibraries compute_libraries();

}  // namespace muster::compute
