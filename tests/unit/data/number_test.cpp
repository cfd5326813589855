// Against the C library, on cases by hand and on many random numbers.
#include "muster/data/number.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>

#include "muster/base/random.h"

namespace muster::data {
namespace {

TEST(ParseFloat, AgreesWithTheCLibrary) {
  for (const char* text : {"0",
                           "-0",
                           "1",
                           "+1",
                           "-1.5",
                           ".5",
                           "5.",
                           "0.1",
                           "123456789.123456789",
                           "1e10",
                           "-2.5E-3",
                           "1e+5",
                           "3.4e38",
                           "9007199254740993",
                           "123456789012345678",
                           "1234567890123456789012",
                           "0.000000000000000000000123",
                           "1e-40",
                           "1.17549435e-38",
                           "00012.50",
                           "16777217",
                           "0.30000000000000004"}) {
    const auto value = parse_float(text);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(*value, static_cast<float>(std::strtod(text, nullptr))) << text;
  }
}

TEST(ParseFloat, AgreesWithTheCLibraryOnManyRandomNumbers) {
  RandomStream random({.seed = 3});
  for (int i = 0; i < 20000; ++i) {
    std::string text = random.below(2) == 0 ? "-" : "";
    for (std::uint64_t digits = 1 + random.below(20); digits > 0; --digits)
      text += static_cast<char>('0' + random.below(10));
    if (random.below(3) != 0) text.insert(text.size() - random.below(text.size() - (text[0] == '-')), ".");
    if (random.below(4) == 0) text += "e" + std::to_string(static_cast<int>(random.below(37)) - 20);
    const auto value = parse_float(text);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(*value, static_cast<float>(std::strtod(text.c_str(), nullptr))) << text;
  }
}

TEST(ParseFloat, SpacesAroundANumberDoNotMatter) {
  EXPECT_EQ(parse_float("  1.5\t"), 1.5F);
  EXPECT_FALSE(parse_float("1 5"));
}

TEST(ParseFloat, WhatIsNoFiniteNumberIsNothing) {
  for (const char* text : {"",    " ",   "-",   "+",     ".",      "e5",     "-.",    "1e",       "1e+",
                           "abc", "1x",  "x1",  "nan",   "NaN",    "inf",    "-inf",  "infinity", "0x10",
                           "1,5", "--1", "+-1", "1e999", "-1e400", "3.5e38", "1.2.3", "1e5.5",    "1_000"}) {
    EXPECT_FALSE(parse_float(text)) << text;
  }
  EXPECT_FALSE(parse_float(std::string(400, '9')));
}

TEST(ParseFloat, NumbersTooCloseToZeroAreZero) {
  EXPECT_EQ(parse_float("1e-999"), 0.0F);
  EXPECT_EQ(parse_float("0." + std::string(400, '0') + "1"), 0.0F);
  EXPECT_EQ(parse_float(std::string(400, '0')), 0.0F);
  EXPECT_EQ(parse_float("0e999"), 0.0F);
}

}  // namespace
}  // namespace muster::data
