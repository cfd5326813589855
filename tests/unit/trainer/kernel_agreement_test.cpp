// Hosts that are played here say with which kernels they compute.
#include "muster/trainer/kernel_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "muster/base/deadline.h"
#include "muster/control/job_generation.h"
#include "support/errors.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(KernelAgreement, AHostWithOtherKernelsIsToldOfAndNotRefused) {
  const auto store = comm::make_memory_store();
  const auto told_of = [&](std::uint64_t host) {
    return store->get(control::other_kernels_key(host), Deadline::after(std::chrono::seconds(0)));
  };
  const compute::MathKernels first{"2.6", "Haswell", "AVX2"};
  compute::MathKernels other = first;
  other.aten = "AVX512";
  compare_kernels(*store, 1, "a (1)", first);
  compare_kernels(*store, 2, "b (2)", first);
  testing::expect_error(ErrorKind::kTimeout, "", [&] { told_of(2); });
  compare_kernels(*store, 3, "c (3)", other);
  EXPECT_THAT(told_of(3), AllOf(HasSubstr("AVX2 on host a (1)"), HasSubstr("AVX512 on host c (3)"),
                                HasSubstr("ATEN_CPU_CAPABILITY=avx2")));
  other.blas = "SkylakeX";
  EXPECT_NO_THROW(compare_kernels(*store, 3, "c (3)", other)) << "one that was replaced, with other variables";
}

}  // namespace
}  // namespace muster::trainer
