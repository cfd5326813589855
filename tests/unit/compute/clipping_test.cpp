// The coefficient at, below and far above the norm; torch's own is in clipping_torch_test.
#include "muster/compute/clipping.h"

#include <gtest/gtest.h>

namespace muster::compute {
namespace {

TEST(ClipCoefficient, LeavesSmallGradientsAlone) {
  EXPECT_EQ(clip_coefficient(0, 1), 1.0F);
  EXPECT_EQ(clip_coefficient(0.5, 1), 1.0F);
}

TEST(ClipCoefficient, ScalesLargeGradientsToTheNorm) {
  EXPECT_FLOAT_EQ(clip_coefficient(10, 1), 0.1F);
  EXPECT_FLOAT_EQ(clip_coefficient(1e-3, 1e-6), static_cast<float>(1e-6 / (1e-3 + 1e-6)));
  EXPECT_LT(clip_coefficient(1, 1), 1.0F) << "torch's 1e-6 counts at the limit";
}

TEST(ClipCoefficient, SurvivesExtremes) {
  EXPECT_EQ(clip_coefficient(1e300, 1e-10), 0.0F);
  EXPECT_EQ(clip_coefficient(1, 0), 0.0F);
}

}  // namespace
}  // namespace muster::compute
