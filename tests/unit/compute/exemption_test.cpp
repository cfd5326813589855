// Which shapes each rule spares, and its words.
#include "muster/compute/exemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::compute {
namespace {

model::TensorSlot tensor(std::vector<std::int64_t> shape) {
  model::TensorSlot slot;
  slot.name = "tensor";
  slot.shape = std::move(shape);
  return slot;
}

TEST(Exemption, BiasAndNormSparesTensorsOfAtMostOneDimension) {
  EXPECT_TRUE(is_exempt(Exemption::kBiasAndNorm, tensor({})));
  EXPECT_TRUE(is_exempt(Exemption::kBiasAndNorm, tensor({64})));
  EXPECT_FALSE(is_exempt(Exemption::kBiasAndNorm, tensor({10, 512})));
  EXPECT_FALSE(is_exempt(Exemption::kBiasAndNorm, tensor({64, 3, 7, 7})));
}

TEST(Exemption, NoneSparesNothing) {
  EXPECT_FALSE(is_exempt(Exemption::kNone, tensor({})));
  EXPECT_FALSE(is_exempt(Exemption::kNone, tensor({64})));
}

TEST(Exemption, EveryNameIsParsedAndPrinted) {
  EXPECT_THAT(exemption_names(), testing::ElementsAre("none", "bias_and_norm"));
  for (const std::string& name : exemption_names())
    EXPECT_EQ(to_string(parse_exemption(name)), name);
}

TEST(Exemption, ATypoIsRefusedWithTheNearestName) {
  try {
    parse_exemption("bias_and_nrom");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean \"bias_and_norm\""));
  }
}

}  // namespace
}  // namespace muster::compute
