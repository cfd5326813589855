// What patterns fit, and that many stars take no time.
#include "muster/base/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster {
namespace {

TEST(Pattern, FitsWholeNames) {
  EXPECT_TRUE(fits("layer1.*", "layer1.0.conv1.weight"));
  EXPECT_FALSE(fits("layer1.*", "layer10.0.weight"));
  EXPECT_FALSE(fits("layer1.*", "layer1"));
  EXPECT_TRUE(fits("*.bias", "fc.bias"));
  EXPECT_FALSE(fits("*.bias", "fc.bias2"));
  EXPECT_TRUE(fits("*", ""));
  EXPECT_TRUE(fits("", ""));
  EXPECT_FALSE(fits("", "a"));
  EXPECT_TRUE(fits("a?c", "abc"));
  EXPECT_FALSE(fits("a?c", "ac"));
  EXPECT_TRUE(fits("*a*b*", "xxaxxbxx"));
  EXPECT_TRUE(fits("**a", "ba"));
  EXPECT_FALSE(fits("*ab", "aba"));
  EXPECT_TRUE(fits("*ab", "abab"));
}

TEST(Pattern, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i)
    pattern += "*a";
  EXPECT_FALSE(fits(pattern + "b", std::string(5000, 'a')));
}

TEST(Pattern, NumbersFollowTheLastEqualsSign) {
  const NumberedPattern parsed = parse_numbered_pattern("a=b.*=0.25");
  EXPECT_EQ(parsed.pattern, "a=b.*");
  EXPECT_EQ(parsed.number, 0.25);
  for (const char* const bad : {"", "=1", "a", "a=", "a=x", "a=1x", "a=inf", "a=nan", "a= 1"})
    EXPECT_THROW(parse_numbered_pattern(bad), Error) << bad;
}

TEST(Pattern, OneThatFitsNothingIsNamed) {
  const std::vector<std::string> names{"fc.weight", "fc.bias"};
  const std::vector<std::string> good{"fc.*", "*bias"};
  require_all_fit(good, names, "model.freeze");
  const std::vector<std::string> bad{"fc.*", "fc.wieght"};
  try {
    require_all_fit(bad, names, "model.freeze");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "model.freeze");
    EXPECT_THAT(error.message(), ::testing::HasSubstr("\"fc.wieght\""));
    EXPECT_THAT(error.message(), ::testing::HasSubstr("fc.weight"));
  }
}

}  // namespace
}  // namespace muster
