// What keys allow, in words; and keys with two forms: a number or a range of them, a number or "auto".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/config.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Config, FieldsDescribeWhatIsAllowed) {
  std::int64_t count = 0;
  std::vector<double> numbers;
  std::string word;
  EXPECT_EQ(Field("k", &count, "").allowed(), "integer");
  EXPECT_EQ(Field("k", &count, "").range(2).allowed(), "integer, 2 or more");
  EXPECT_EQ(Field("k", &count, "").range(0, 1e6).allowed(), "integer, 0 to 1000000");
  EXPECT_EQ(Field("k", &count, "").range(-std::numeric_limits<double>::infinity(), 5).allowed(), "integer, at most 5");
  EXPECT_EQ(Field("k", &numbers, "").range(0, 1).above(0).allowed(), "array of numbers, greater than 0 and at most 1");
  EXPECT_EQ(Field("k", &word, "").non_empty().allowed(), "non-empty string");
  EXPECT_EQ(Field("k", &word, "").non_empty().violation(), "the text is empty");
}

// --- Ranges of integers

struct BoundRange {
  IntegerRange workers{1, 1};
  Schema schema;
  BoundRange() { schema.section("parallel", "Who.").field("workers", &workers, "How many.").range(1, 64); }
  std::string error_of(const std::string& value) {
    try {
      schema.load_text("[parallel]\nworkers = " + value + "\n", "job.toml");
    } catch (const Error& error) {
      return error.what();
    }
    return fmt::format("accepted as {} to {}", workers.least, workers.most);
  }
};

TEST(ConfigRange, IsANumberOrATextOfTwo) {
  BoundRange bound;
  EXPECT_EQ(bound.error_of("4"), "accepted as 4 to 4");
  EXPECT_EQ(bound.error_of("\"1:4\""), "accepted as 1 to 4");
  EXPECT_EQ(bound.error_of("\"3:3\""), "accepted as 3 to 3");
  EXPECT_EQ(bound.error_of("\"1:64\""), "accepted as 1 to 64");
  for (const std::string assignment : {"parallel.workers=10:20", "parallel.workers=\"10:20\""}) {
    bound.schema.set(assignment);
    EXPECT_EQ(bound.workers.least, 10) << assignment;
    EXPECT_EQ(bound.workers.most, 20) << assignment;
  }
}

TEST(ConfigRange, RefusesTextsThatAreNone) {
  for (const std::string value :
       {"\"\"", "\"4\"", "\":\"", "\"1:\"", "\":4\"", "\"1-4\"", "\"1:4:5\"", "\" 1:4\"", "\"1: 4\"", "\"1:4 \"",
        "\"+1:4\"", "\"one:4\"", "\"1:99999999999999999999\"", "1.5", "true", "[1, 4]"}) {
    EXPECT_THAT(BoundRange().error_of(value), HasSubstr("Expected integer, or a range as \"1:4\"")) << value;
  }
}

TEST(ConfigRange, KeepsLimitsAndOrder) {
  EXPECT_THAT(BoundRange().error_of("\"4:1\""), HasSubstr("found \"4:1\", which begins above its end"));
  for (const std::string value : {"0", "65", "-1", "\"0:4\"", "\"1:65\"", "\"-3:-1\""})
    EXPECT_THAT(BoundRange().error_of(value), AllOf(HasSubstr("parallel.workers: found"), HasSubstr("1 to 64")));
}

TEST(ConfigRange, PrintsWhatItReadsBack) {
  BoundRange bound;
  for (const IntegerRange range : {IntegerRange{3, 3}, IntegerRange{1, 4}}) {
    bound.workers = range;
    BoundRange other;
    other.schema.load_text(bound.schema.to_toml(), "resolved.toml");
    EXPECT_EQ(other.workers.least, range.least);
    EXPECT_EQ(other.workers.most, range.most);
  }
  EXPECT_EQ(bound.schema.to_json(), (Json{{"parallel", {{"workers", "1:4"}}}}));
  bound.workers = {2, 2};
  EXPECT_EQ(bound.schema.to_json(), (Json{{"parallel", {{"workers", 2}}}}));
  EXPECT_TRUE(bound.schema.changed("parallel.workers"));
  EXPECT_THAT(bound.schema.to_markdown(), HasSubstr("integer, or a range as \"1:4\""));
}

// --- A number, or "auto"

struct BoundAuto {
  std::optional<AutoInteger> every;
  Schema schema;
  BoundAuto() { schema.section("checkpoint", "When.").field("every", &every, "Steps.").range(1, 64); }
  std::string error_of(const std::string& value) {
    try {
      schema.load_text("[checkpoint]\nevery = " + value + "\n", "job.toml");
    } catch (const Error& error) {
      return error.what();
    }
    return every->automatic ? "accepted as auto" : fmt::format("accepted as {}", every->value);
  }
};

TEST(ConfigAuto, IsANumberOrTheWord) {
  EXPECT_EQ(BoundAuto().error_of("4"), "accepted as 4");
  EXPECT_EQ(BoundAuto().error_of("\"auto\""), "accepted as auto");
  BoundAuto bound;
  bound.schema.set("checkpoint.every=auto");
  EXPECT_TRUE(bound.every->automatic);
  bound.schema.set("checkpoint.every=7");
  EXPECT_FALSE(bound.every->automatic);
  EXPECT_EQ(bound.every->value, 7);
}

TEST(ConfigAuto, RefusesOtherWordsAndNumbersOutsideTheLimits) {
  for (const std::string value : {"\"\"", "\"Auto\"", "\"automatic\"", "\"4\"", "1.5", "true", "[1]"})
    EXPECT_THAT(BoundAuto().error_of(value), HasSubstr("\"auto\", or integer, 1 to 64")) << value;
  for (const std::string value : {"0", "65"})
    EXPECT_THAT(BoundAuto().error_of(value), HasSubstr("found " + value)) << value;
}

TEST(ConfigAuto, PrintsWhatItReadsBack) {
  BoundAuto bound;
  EXPECT_EQ(bound.schema.to_json(), (Json{{"checkpoint", Json::object()}}));
  for (const AutoInteger value : {AutoInteger{false, 3}, AutoInteger{true, 0}}) {
    bound.every = value;
    BoundAuto other;
    other.schema.load_text(bound.schema.to_toml(), "resolved.toml");
    EXPECT_EQ(other.every->automatic, value.automatic);
    EXPECT_EQ(other.every->value, value.value);
  }
  EXPECT_EQ(bound.schema.to_json(), (Json{{"checkpoint", {{"every", "auto"}}}}));
  bound.every = AutoInteger{false, 2};
  EXPECT_EQ(bound.schema.to_json(), (Json{{"checkpoint", {{"every", 2}}}}));
}

}  // namespace
}  // namespace muster
