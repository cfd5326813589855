// Every tensor of file and model is accounted for: loaded, skipped, missing, of another shape or too many.
#include "muster/model/init_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "muster/base/error.h"

namespace muster::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::byte> kZeros(4096);

TensorView tensor(std::string name, std::vector<std::int64_t> shape, Dtype dtype = Dtype::kF32) {
  std::uint64_t bytes = bytes_of(dtype);
  for (const std::int64_t extent : shape)
    bytes *= static_cast<std::uint64_t>(extent);
  return {std::move(name), dtype, std::move(shape), std::span(kZeros).first(bytes)};
}

const std::vector<InitTarget> kModel{{"conv.weight", {4, 3}},
                                     {"bn.count_num_batches_tracked", {}, Dtype::kI64},
                                     {"fc.weight", {10, 4}},
                                     {"fc.bias", {10}}};

TEST(InitReport, EveryTensorIsAccountedFor) {
  Weights weights;
  weights.tensors = {tensor("conv.weight", {4, 3}), tensor("fc.weight", {100, 4}), tensor("extra", {1})};
  const InitReport report = compare_weights(weights, kModel, {});
  EXPECT_EQ(report.loaded.size(), 1U);
  EXPECT_THAT(report.missing, ElementsAre("bn.count_num_batches_tracked", "fc.bias"));
  EXPECT_THAT(report.mismatched, ElementsAre("fc.weight (F32 [100, 4] in the file, F32 [10, 4] in the model)"));
  EXPECT_THAT(report.unexpected, ElementsAre("extra"));
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.summary(), "loaded 1 of 4 tensors, 2 missing, 1 of another shape, 1 not in the model");
  EXPECT_EQ(report.lines().size(), 4U);
}

TEST(InitReport, ANewHeadMustBeNamed) {
  Weights weights;
  weights.tensors = {tensor("conv.weight", {4, 3}), tensor("fc.weight", {100, 4}), tensor("fc.bias", {100})};
  const std::vector<std::string> skip{"fc.*"};
  const InitReport report = compare_weights(weights, kModel, skip);
  EXPECT_THAT(report.skipped, ElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(report.unexpected, ElementsAre());
  EXPECT_TRUE(report.complete());  // only the count of batches is missing
  const std::vector<std::string> wrong{"head.*"};
  EXPECT_THROW(compare_weights(weights, kModel, wrong), Error);
}

TEST(InitReport, AFileWithNothingForTheModelIsNotComplete) {
  const std::vector<std::string> all{"*"};
  EXPECT_FALSE(compare_weights({}, kModel, all).complete());
}

TEST(InitReport, OtherFloatingTypesAreConvertedAndSaid) {
  Weights weights;
  weights.tensors = {tensor("a", {2}, Dtype::kF16), tensor("b", {2}, Dtype::kI32)};
  const std::vector<InitTarget> model{{"a", {2}}, {"b", {2}}};
  const InitReport report = compare_weights(weights, model, {});
  EXPECT_THAT(report.converted, ElementsAre("a"));
  EXPECT_EQ(report.mismatched.size(), 1U);
}

template <typename Raw>
float converted(Dtype dtype, Raw raw) {
  float value = 0;
  copy_floats({"x", dtype, {}, std::as_bytes(std::span(&raw, 1))}, std::span(&value, 1));
  return value;
}

TEST(InitReport, FloatsAreThoseOfTheStandards) {
  EXPECT_EQ(converted(Dtype::kF32, 1.25F), 1.25F);
  EXPECT_EQ(converted(Dtype::kF64, -0.1), -0.1F);
  EXPECT_EQ(converted<std::uint16_t>(Dtype::kF16, 0x3C00), 1.0F);
  EXPECT_EQ(converted<std::uint16_t>(Dtype::kF16, 0xC500), -5.0F);
  EXPECT_EQ(converted<std::uint16_t>(Dtype::kF16, 0x7BFF), 65504.0F);
  EXPECT_EQ(converted<std::uint16_t>(Dtype::kF16, 0x0001), 0x1p-24F);
  EXPECT_EQ(converted<std::uint16_t>(Dtype::kF16, 0x83FF), -1023 * 0x1p-24F);
  EXPECT_TRUE(std::signbit(converted<std::uint16_t>(Dtype::kF16, 0x8000)));
  EXPECT_EQ(converted<std::uint16_t>(Dtype::kF16, 0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(converted<std::uint16_t>(Dtype::kF16, 0x7E00)));
  EXPECT_EQ(converted<std::uint16_t>(Dtype::kBf16, 0xBFC0), -1.5F);
}

}  // namespace
}  // namespace muster::model
