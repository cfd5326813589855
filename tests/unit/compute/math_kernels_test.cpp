// What is said of kernels that differ, by figures that are typed here.
#include "muster/compute/math_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::compute {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MathKernels, TheLeastOfThoseFoundIsWhatAllCanHave) {
  const auto blas = [](const std::vector<std::string>& found) { return remedy_for_blas(found); };
  EXPECT_THAT(blas({"SkylakeX", "Haswell", "Cooperlake"}), HasSubstr("OPENBLAS_CORETYPE=Haswell on all hosts"));
  EXPECT_THAT(blas({"Haswell", "Sandybridge"}), HasSubstr("OPENBLAS_CORETYPE=Sandybridge "));
  EXPECT_THAT(blas({"Haswell", "Zen"}), HasSubstr("OPENBLAS_CORETYPE=(")) << "which of them is the lesser is not known";
  EXPECT_THAT(blas({"Haswell", ""}), HasSubstr("OPENBLAS_CORETYPE=("));
  const auto aten = [](const std::vector<std::string>& found) { return remedy_for_aten(found); };
  EXPECT_THAT(aten({"AVX512", "AVX2"}), HasSubstr("ATEN_CPU_CAPABILITY=avx2 "));
  EXPECT_THAT(aten({"AVX2", "DEFAULT"}), HasSubstr("ATEN_CPU_CAPABILITY=default "));
}

TEST(MathKernels, WhatDiffersIsNamedWithBothValues) {
  const MathKernels one{"2.6", "Haswell", "AVX2"};
  EXPECT_THAT(kernel_differences(one, "a", one, "b"), IsEmpty());
  MathKernels other = one;
  other.blas = "SkylakeX";
  EXPECT_THAT(kernel_differences(one, "a (1)", other, "b (2)"),
              ElementsAre(AllOf(HasSubstr("Haswell on host a (1)"), HasSubstr("SkylakeX on host b (2)"),
                                HasSubstr("OPENBLAS_CORETYPE=Haswell"))));
  other = {"1.13", "", "AVX512"};
  EXPECT_THAT(
      kernel_differences(one, "a", other, "b"),
      ElementsAre(HasSubstr("1.13 on host b"), HasSubstr("not known on host b"), HasSubstr("AVX512 on host b")));
}

}  // namespace
}  // namespace muster::compute
