// Which of their kernels LibTorch and the BLAS below it have chosen for this processor. Others add up in another order,
// and so give other bits: hosts whose kernels differ train, but not with the bits of one host.
//
// Pure, no torch here; threads.h asks the libraries.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace muster::compute {

struct MathKernels {
  std::string torch{};  // LibTorch's version
  std::string blas{};   // OpenBLAS's, as it names them itself, "Haswell"; empty: the BLAS does not say
  std::string aten{};   // LibTorch's own, "AVX2"; empty: it does not say
  bool operator==(const MathKernels&) const = default;
};

// What to do where machines of one job have these, in words.
std::string remedy_for_torch();
std::string remedy_for_blas(std::span<const std::string> found);
std::string remedy_for_aten(std::span<const std::string> found);

// What differs, with both values and what to do, a line for each; nothing: they compute the same bits.
std::vector<std::string> kernel_differences(const MathKernels& theirs, const std::string& there,
                                            const MathKernels& mine, const std::string& here);

}  // namespace muster::compute
