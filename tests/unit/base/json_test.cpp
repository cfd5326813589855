// JSON as files may hold it: limits, repeated names, types, and the time that many members take.
#include "muster/base/json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster {
namespace {

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i)
    out += text;
  return out;
}

void expect_damaged(std::string_view text, const std::string& word) {
  try {
    parse_json(text, "manifest.json");
    FAIL() << "accepted: " << text.substr(0, 80);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged) << error.what();
    EXPECT_EQ(error.where(), "manifest.json");
    EXPECT_NE(error.message().find(word), std::string::npos) << error.what();
    EXPECT_LT(error.message().size(), 400U);
    EXPECT_NO_THROW(Json(error.what()).dump());  // an error must be fit for --json output
  }
}

TEST(ParseJson, ReadsEveryKindOfValue) {
  const Json value = parse_json(
      R"({"n": null, "b": true, "i": -3, "u": 18446744073709551615, "d": 0.1, "s": "\u00e4\n", "a": [1, [2]], "o": {}})",
      "x");
  EXPECT_TRUE(value["n"].is_null());
  EXPECT_EQ(value["b"], true);
  EXPECT_EQ(value["i"], -3);
  EXPECT_EQ(value["u"].get<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ(value["d"].get<double>(), 0.1);
  EXPECT_EQ(value["s"], "\xc3\xa4\n");
  EXPECT_EQ(value["a"].dump(), "[1,[2]]");
  EXPECT_TRUE(value["o"].is_object());
}

TEST(ParseJson, ReadsAValueThatIsNoObject) {
  EXPECT_EQ(parse_json("3", "x"), 3);
  EXPECT_EQ(parse_json("\"[[[[\"", "x"), "[[[[");
  EXPECT_TRUE(parse_json(" [ ] ", "x").empty());
}

TEST(ParseJson, KeepsTheOrderOfMembers) {
  EXPECT_EQ(parse_json(R"({"z":1,"a":2,"m":3})", "x").dump(), R"({"z":1,"a":2,"m":3})");
}

TEST(ParseJson, ReadsBackWhatWasWritten) {
  const std::string text = R"({"a":[1,-2,0.1,1e-300,true,null],"b":{"c":"\"\\\u0000"},"d":[[],{}]})";
  EXPECT_EQ(parse_json(text, "x").dump(), text);
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  for (const std::string text :
       {"",    " ",     "{",     "[1,", "[1,]",   "{\"a\"}", "{\"a\":1,}", "{a:1}", "nul",           "01", "1.",
        "'a'", "[1] 2", "{} {}", "\"a", "\"\n\"", "NaN",     "Infinity",   "1e999", "\xef\xbb\xbf{", "[1}"}) {
    expect_damaged(text, "not valid JSON");
  }
}

TEST(ParseJson, SaysWhere) {
  expect_damaged("{\"a\": 1,\n \"b\" 2}", "line 2, column 6");
}

TEST(ParseJson, RefusesTextThatIsNotUtf8) {
  expect_damaged("\"\xff\"", "not valid JSON");
  expect_damaged("\"\xed\xa0\x80\"", "not valid JSON");
  expect_damaged("\"\\ud800\"", "not valid JSON");
  expect_damaged(std::string("\"\0\"", 3), "not valid JSON");
}

TEST(ParseJson, AcceptsTheDeepestAndNotOneDeeper) {
  EXPECT_NO_THROW(parse_json(repeated("[", 32) + repeated("]", 32), "x"));
  expect_damaged(repeated("[", 33) + repeated("]", 33), "deeper than 32");
  expect_damaged(repeated("{\"a\":", 33) + "1" + repeated("}", 33), "deeper than 32");
  expect_damaged(repeated("[", 1'000'000), "deeper than 32");
  EXPECT_NO_THROW(parse_json("[" + repeated("[],", 100) + "[]]", "x"));  // wide is not deep
}

TEST(ParseJson, RefusesAMemberThatStandsTwice) {
  expect_damaged(R"({"step": 1, "seed": 2, "step": 3})", "\"step\" twice");
  expect_damaged(R"([{"a": {"b": 1, "b": 1}}])", "\"b\" twice");
  expect_damaged(R"({"a": 1, "\u0061": 1})", "\"a\" twice");
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": 1}, "b": {"a": 2}})", "x"));
}

// A search through all members for each of them would take hours here.
TEST(ParseJson, ReadsManyMembersInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 400'000; ++i)
    text += fmt::format("\"{}\":0,", i);
  text.back() = '}';
  EXPECT_EQ(parse_json(text, "x").size(), 400'000U);
}

TEST(ParseJson, RefusesMoreValuesThanAnyFileOfOursHas) {
  EXPECT_EQ(parse_json("[" + repeated("0,", 499'998) + "0]", "x").size(), 499'999U);  // and the array itself
  expect_damaged("[" + repeated("0,", 499'999) + "0]", "more than 500000 values");
}

TEST(JsonGet, GivesMembersOfTheRightType) {
  const Json object = parse_json(
      R"({"s": "x", "b": false, "d": 2, "u": 7, "i": -7, "o": {"k": 1}, "vi": [1, -2], "vu": [1, 2], "vs": ["a"], "e": []})",
      "x");
  EXPECT_EQ(json_get<std::string>(object, "s", "x"), "x");
  EXPECT_EQ(json_get<bool>(object, "b", "x"), false);
  EXPECT_EQ(json_get<double>(object, "d", "x"), 2.0);
  EXPECT_EQ(json_get<std::uint64_t>(object, "u", "x"), 7U);
  EXPECT_EQ(json_get<std::int64_t>(object, "u", "x"), 7);
  EXPECT_EQ(json_get<std::int64_t>(object, "i", "x"), -7);
  EXPECT_EQ(json_get<Json>(object, "o", "x")["k"], 1);
  EXPECT_EQ(json_get<std::vector<std::int64_t>>(object, "vi", "x"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(json_get<std::vector<std::uint64_t>>(object, "vu", "x"), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(json_get<std::vector<std::string>>(object, "vs", "x"), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(json_get<std::vector<std::string>>(object, "e", "x").empty());
}

TEST(JsonGet, TakesNumbersThatCodeMade) {
  const Json object{{"step", 7}, {"negative", -7}};  // signed, unlike what the parser makes of 7
  EXPECT_EQ(json_get<std::uint64_t>(object, "step", "x"), 7U);
  EXPECT_THROW(json_get<std::uint64_t>(object, "negative", "x"), Error);
}

template <typename T>
std::string complaint(const Json& object, const std::string& key) {
  try {
    json_get<T>(object, key, "manifest.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
    return error.what();
  }
  return "none";
}

TEST(JsonGet, NamesAMissingMember) {
  const Json object = parse_json(R"({"a": 1})", "x");
  EXPECT_EQ(complaint<bool>(object, "step"), "manifest.json: member \"step\" is missing");
  EXPECT_EQ(complaint<bool>(parse_json("[1]", "x"), "step"), "manifest.json: member \"step\" is missing");
  EXPECT_EQ(complaint<bool>(Json(), "step"), "manifest.json: member \"step\" is missing");
}

TEST(JsonGet, RefusesOtherTypes) {
  const Json object = parse_json(
      R"({"f": 1.5, "w": 1.0, "n": -1, "big": 9223372036854775808, "s": "1", "z": null, "a": [1, "x"], "na": [-1]})",
      "x");
  EXPECT_EQ(complaint<std::int64_t>(object, "f"), "manifest.json: member \"f\" has the wrong type (number)");
  EXPECT_NE(complaint<std::int64_t>(object, "w"), "none");
  EXPECT_NE(complaint<std::uint64_t>(object, "n"), "none");
  EXPECT_NE(complaint<std::int64_t>(object, "big"), "none");
  EXPECT_NE(complaint<double>(object, "s"), "none");
  EXPECT_NE(complaint<std::string>(object, "n"), "none");
  EXPECT_NE(complaint<std::string>(object, "z"), "none");
  EXPECT_NE(complaint<bool>(object, "n"), "none");
  EXPECT_NE(complaint<Json>(object, "a"), "none");
  EXPECT_NE(complaint<std::vector<std::int64_t>>(object, "a"), "none");
  EXPECT_NE(complaint<std::vector<std::string>>(object, "a"), "none");
  EXPECT_NE(complaint<std::vector<std::uint64_t>>(object, "na"), "none");
  EXPECT_NE(complaint<std::vector<std::uint64_t>>(object, "n"), "none");
}

}  // namespace
}  // namespace muster
