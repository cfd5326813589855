// combine.h against the recursion of support/collective_checks.h and against conversions written from the formats'
// definitions.
#include "muster/comm/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/collective_checks.h"

namespace muster::comm {
namespace {

using muster::testing::expect_same_bits;
using muster::testing::reduced_value;
using muster::testing::values_of;

constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMin, Reduction::kMax, Reduction::kProduct,
                                     Reduction::kAverage};

template <typename T>
class CombineTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, Bfloat16, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(CombineTest, Types);

TYPED_TEST(CombineTest, IsTheTreeForAnyNumberOfRanksAndElements) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 64}) {
    // 512 elements are one tile.
    for (const std::size_t count : {0UL, 1UL, 7UL, 511UL, 512UL, 513UL, 2000UL}) {
      std::vector<std::vector<TypeParam>> inputs;
      std::vector<const void*> pointers;
      for (int rank = 0; rank < ranks; ++rank)
        inputs.push_back(values_of<TypeParam>(rank, 0, count));
      for (const auto& input : inputs)
        pointers.push_back(input.data());
      for (const Reduction reduction : kReductions) {
        std::vector<TypeParam> expected(count);
        for (std::size_t i = 0; i < count; ++i)
          expected[i] = reduced_value<TypeParam>(reduction, ranks, i);
        std::vector<TypeParam> output(count);
        combine(element_type<TypeParam>(), reduction, pointers, output.data(), count);
        expect_same_bits(output, expected, fmt::format("{} of {} ranks", to_string(reduction), ranks));
        // Into any of the inputs.
        const auto last = static_cast<std::size_t>(ranks) - 1;
        std::vector<TypeParam> in_place = inputs[last];
        std::vector<const void*> with_output = pointers;
        with_output[last] = in_place.data();
        combine(element_type<TypeParam>(), reduction, with_output, in_place.data(), count);
        expect_same_bits(in_place, expected, fmt::format("{} of {} ranks, in place", to_string(reduction), ranks));
      }
    }
  }
}

// Two stages, as hosts do it: 4 + 4 ranks are subtrees of 8.
TYPED_TEST(CombineTest, PartialResultsOfAlignedSubtreesGiveTheBitsOfOneStage) {
  constexpr std::size_t kCount = 777;
  for (const Reduction reduction : kReductions) {
    const ElementType type = element_type<TypeParam>();
    const ElementType wide = partial_type(type, reduction);
    std::vector<std::vector<std::byte>> hosts;
    for (int host = 0; host < 2; ++host) {
      std::vector<std::vector<std::byte>> widened;
      std::vector<const void*> pointers;
      for (int rank = host * 4; rank < host * 4 + 4; ++rank) {
        widened.emplace_back(kCount * size_of(wide));
        const auto input = values_of<TypeParam>(rank, 0, kCount);
        widen(type, reduction, input.data(), widened.back().data(), kCount);
      }
      for (const auto& input : widened)
        pointers.push_back(input.data());
      hosts.emplace_back(kCount * size_of(wide));
      combine(wide, partial_reduction(reduction), pointers, hosts.back().data(), kCount);
    }
    const std::vector<const void*> partials{hosts[0].data(), hosts[1].data()};
    combine(wide, partial_reduction(reduction), partials, hosts[0].data(), kCount);
    std::vector<TypeParam> output(kCount);
    finish(type, reduction, hosts[0].data(), output.data(), kCount, 8);
    std::vector<TypeParam> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      expected[i] = reduced_value<TypeParam>(reduction, 8, i);
    expect_same_bits(output, expected, std::string(to_string(reduction)));
  }
}

TEST(Combine, MinimumAndMaximumPassNaNsOn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> left{nan, 1, 2}, right{1, nan, 3};
  const std::vector<const void*> inputs{left.data(), right.data()};
  for (const Reduction reduction : {Reduction::kMin, Reduction::kMax}) {
    std::vector<float> output(3);
    combine(ElementType::kFloat, reduction, inputs, output.data(), 3);
    EXPECT_TRUE(std::isnan(output[0])) << to_string(reduction);
    EXPECT_TRUE(std::isnan(output[1])) << to_string(reduction);
    EXPECT_EQ(output[2], reduction == Reduction::kMin ? 2 : 3);
  }
}

TEST(Combine, IntegerSumsWrapAndAveragesDoNot) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> left{most, -7}, right{most, 2};
  const std::vector<const void*> inputs{left.data(), right.data()};
  std::vector<std::int32_t> output(2);
  combine(ElementType::kInt32, Reduction::kSum, inputs, output.data(), 2);
  EXPECT_EQ(output[0], -2);
  combine(ElementType::kInt32, Reduction::kAverage, inputs, output.data(), 2);
  EXPECT_EQ(output[0], most);
  EXPECT_EQ(output[1], -2);  // -5 / 2, towards zero
}

// From the definition of binary16: sign, 5 bits of exponent, 10 of fraction.
double half_by_definition(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1f;
  const double fraction = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(HalfConversion, EveryFiniteHalfIsExactAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    if ((bits & 0x7c00U) == 0x7c00U) {
      const bool infinite = (bits & 0x3ffU) == 0;
      EXPECT_EQ(std::isinf(to_float(half)), infinite) << bits;
      EXPECT_EQ(std::isnan(to_float(half)), !infinite) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(to_float(half)), half_by_definition(half.bits)) << bits;
    ASSERT_EQ(to_half(to_float(half)).bits, half.bits) << bits;
  }
}

TEST(HalfConversion, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bffU; ++bits) {
    const double low = half_by_definition(static_cast<std::uint16_t>(bits));
    const double high = half_by_definition(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit than a half has
    ASSERT_EQ(to_half(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 1e9F)).bits, bits + 1) << bits;
    ASSERT_EQ(to_half(-middle).bits, (bits % 2 == 0 ? bits : bits + 1) | 0x8000U) << bits;
  }
  EXPECT_EQ(to_half(65519.0F).bits, 0x7bffU);
  EXPECT_EQ(to_half(65520.0F).bits, 0x7c00U);
  EXPECT_EQ(to_half(std::numeric_limits<float>::infinity()).bits, 0x7c00U);
  EXPECT_TRUE(std::isnan(to_float(to_half(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(to_half(1e-30F).bits, 0U);
}

TEST(Bfloat16Conversion, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7f80U; ++bits) {
    const float exact = std::bit_cast<float>(bits << 16);
    ASSERT_EQ(to_float(Bfloat16{static_cast<std::uint16_t>(bits)}), exact);
    ASSERT_EQ(to_bfloat16(exact).bits, bits);
    ASSERT_EQ(to_bfloat16(std::bit_cast<float>((bits << 16) | 0x8000U)).bits, bits + bits % 2) << bits;
    ASSERT_EQ(to_bfloat16(std::bit_cast<float>((bits << 16) | 0x7fffU)).bits, bits) << bits;
    ASSERT_EQ(to_bfloat16(std::bit_cast<float>((bits << 16) | 0x8001U)).bits, bits + 1) << bits;
  }
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(to_float(to_bfloat16(std::numeric_limits<float>::infinity()))));
}

}  // namespace
}  // namespace muster::comm
