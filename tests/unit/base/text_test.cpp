// Typos, units and cut texts, at the edges where one form becomes another.
#include "muster/base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

using Words = std::vector<std::string>;

const Words kOptimizers{"sgd", "adam", "adamw", "lars", "lamb", "momentum", "weight_decay"};

TEST(Nearest, FindsWhatWasMistyped) {
  EXPECT_EQ(nearest("adm", kOptimizers), "adam");           // a letter missing
  EXPECT_EQ(nearest("sggd", kOptimizers), "sgd");           // one too many
  EXPECT_EQ(nearest("lans", kOptimizers), "lars");          // a wrong one
  EXPECT_EQ(nearest("momnetum", kOptimizers), "momentum");  // two swapped
  EXPECT_EQ(nearest("weightdecay", kOptimizers), "weight_decay");
  EXPECT_EQ(nearest("wieghtdecay", kOptimizers), "weight_decay");
}

TEST(Nearest, PrefersTheNearerOne) {
  EXPECT_EQ(nearest("adamv", kOptimizers), "adam");  // equally near to adam and adamw: the first
  EXPECT_EQ(nearest("adamww", kOptimizers), "adamw");
  EXPECT_EQ(nearest("adam", kOptimizers), "adam");
}

TEST(Nearest, DoesNotMindCapitals) {
  EXPECT_EQ(nearest("SGD", kOptimizers), "sgd");
  EXPECT_EQ(nearest("AdamW", kOptimizers), "adamw");
}

TEST(Nearest, GivesNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("banana", kOptimizers), std::nullopt);
  EXPECT_EQ(nearest("", kOptimizers), std::nullopt);
  EXPECT_EQ(nearest("sgd", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(1 << 20, 'a'), kOptimizers), std::nullopt);
}

TEST(Nearest, AWordWithNoLetterInCommonIsNotNear) {
  EXPECT_EQ(nearest("x", Words{"y"}), std::nullopt);
  EXPECT_EQ(nearest("x", Words{""}), std::nullopt);
  EXPECT_EQ(nearest("l", Words{"lr"}), "lr");
}

TEST(DidYouMean, IsReadyForAMessage) {
  EXPECT_EQ(did_you_mean("adm", kOptimizers), " (did you mean \"adam\"?)");
  EXPECT_EQ(did_you_mean("banana", kOptimizers), "");
}

TEST(JoinWords, ReadsLikeASentence) {
  EXPECT_EQ(join_words({}), "");
  EXPECT_EQ(join_words(Words{"a"}), "a");
  EXPECT_EQ(join_words(Words{"a", "b"}), "a and b");
  EXPECT_EQ(join_words(Words{"a", "b", "c"}), "a, b and c");
}

TEST(HumanBytes, PicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(47'200'000), "47.2 MB");
  EXPECT_EQ(human_bytes(1'500'000'000'000), "1.5 TB");
  EXPECT_EQ(human_bytes(~std::uint64_t{0}), "18.4 EB");
}

TEST(HumanBytes, NeverShowsAThousandOfAUnit) {
  EXPECT_EQ(human_bytes(999'949), "999.9 kB");
  EXPECT_EQ(human_bytes(999'950), "1.0 MB");
  EXPECT_EQ(human_bytes(999'999), "1.0 MB");
  EXPECT_EQ(human_bytes(999'999'999), "1.0 GB");
}

TEST(HumanDuration, PicksTheForm) {
  using std::chrono::milliseconds;
  EXPECT_EQ(human_duration(milliseconds(0)), "0 ms");
  EXPECT_EQ(human_duration(milliseconds(850)), "850 ms");
  EXPECT_EQ(human_duration(milliseconds(1000)), "1.0 s");
  EXPECT_EQ(human_duration(milliseconds(12'340)), "12.3 s");
  EXPECT_EQ(human_duration(milliseconds(187'000)), "3:07");
  EXPECT_EQ(human_duration(milliseconds(3'599'600)), "1:00:00");
  EXPECT_EQ(human_duration(milliseconds(7'509'000)), "2:05:09");
  EXPECT_EQ(human_duration(std::chrono::hours(100)), "100:00:00");
}

TEST(HumanDuration, NeverShowsAThousandMillisecondsOrSixtySeconds) {
  EXPECT_EQ(human_duration(std::chrono::microseconds(999'400)), "999 ms");
  EXPECT_EQ(human_duration(std::chrono::microseconds(999'600)), "1.0 s");
  EXPECT_EQ(human_duration(std::chrono::milliseconds(59'940)), "59.9 s");
  EXPECT_EQ(human_duration(std::chrono::milliseconds(59'960)), "1:00");
}

TEST(ValidUtf8Prefix, IsTheWholeOfValidText) {
  for (const std::string text : {"", "plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(valid_utf8_prefix(text), text.size()) << text;
  EXPECT_EQ(valid_utf8_prefix(std::string(3, '\0')), 3U);
}

TEST(ValidUtf8Prefix, EndsBeforeTheFirstBrokenByte) {
  const Words broken{
      "ab\x80",              // a continuation without a start
      "ab\xc3",              // cut after the start
      "ab\xe2\x82",          // cut in the middle
      "ab\xc0\xaf",          // '/' in two bytes
      "ab\xe0\x80\xaf",      // '/' in three
      "ab\xed\xa0\x80",      // half of a surrogate pair
      "ab\xf4\x90\x80\x80",  // beyond U+10FFFF
      "ab\xff",
      "ab\xc3z",
  };
  for (const std::string& text : broken)
    EXPECT_EQ(valid_utf8_prefix(text), 2U) << text;
}

TEST(Excerpt, KeepsShortPlainText) {
  EXPECT_EQ(excerpt("", 10), "");
  EXPECT_EQ(excerpt("0123456789", 10), "0123456789");
  EXPECT_EQ(excerpt("\xc3\xa4rger", 10), "\xc3\xa4rger");
}

TEST(Excerpt, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(excerpt("0123456789a", 10), "0123456789...");
  EXPECT_EQ(excerpt("ab\xe2\x82\xac\xe2\x82\xac", 4), "ab...");
  EXPECT_EQ(excerpt("ab\xe2\x82\xac\xe2\x82\xac", 5), "ab\xe2\x82\xac...");
}

TEST(Excerpt, ShowsWhatATerminalMustNotSeeAsAQuestionMark) {
  EXPECT_EQ(excerpt("a\x1b[31mb\nc", 20), "a?[31mb?c");
  EXPECT_EQ(excerpt("a\xff\x7f", 20), "a??");
  EXPECT_EQ(excerpt(std::string(1, '\0'), 20), "?");
}

TEST(Grouped, PutsACommaBetweenThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

}  // namespace
}  // namespace muster
