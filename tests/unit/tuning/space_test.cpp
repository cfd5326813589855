// Spaces: what a study file says, what is refused, and that the unit interval and the values are mapped onto each
// other.
#include "muster/tuning/space.h"

#include <cmath>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

Space read_space(const std::string& text) {
  return Space::from_toml(parse_toml(text, "study.toml"), "study.toml");
}

std::string refusal(const std::string& text) {
  try {
    read_space(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return error.what();
  }
  return "accepted";
}

constexpr const char* kStudy = R"(
optimizer.lr = { log = [1e-4, 1.0] }
optimizer.name = { choice = ["sgd", "adam"] }
optimizer.momentum = { uniform = [0.0, 0.9], step = 0.3, when = { optimizer.name = "sgd" } }
"data.batch" = { integer = [32, 128], step = 32 }
model.width = { log_integer = [16, 1024], when = { "optimizer.name" = ["sgd", "adam"], data.batch = [32, 64] } }
job.epochs = 10
)";

TEST(SpaceTest, ReadsEveryFormOfAStudyFile) {
  const Space space = read_space(kStudy);
  // TOML groups the parts of a dotted key.
  ASSERT_EQ(space.size(), 6u);
  EXPECT_EQ(*space.find("optimizer.lr"), Parameter::log_uniform("optimizer.lr", 1e-4, 1.0));
  EXPECT_EQ(*space.find("optimizer.name"), Parameter::choice("optimizer.name", {"sgd", "adam"}));
  EXPECT_EQ(*space.find("optimizer.momentum"),
            Parameter::uniform("optimizer.momentum", 0.0, 0.9, 0.3).only_when("optimizer.name", {"sgd"}));
  EXPECT_EQ(*space.find("data.batch"), Parameter::integer("data.batch", 32, 128, 32));
  EXPECT_EQ(space.find("job.epochs")->choices, std::vector<Value>{std::int64_t{10}});
  ASSERT_EQ(space.find("model.width")->when.size(), 2u);
  for (const Condition& condition : space.find("model.width")->when) {
    const bool batch = condition.key == "data.batch";
    EXPECT_EQ(condition.values,
              batch ? (std::vector<Value>{std::int64_t{32}, std::int64_t{64}}) : (std::vector<Value>{"sgd", "adam"}));
  }
}

TEST(SpaceTest, JsonReadsBackToTheSameSpace) {
  const Space space = read_space(kStudy);
  EXPECT_EQ(Space::from_json(parse_json(space.json().dump(), "space"), "space"), space);
}

TEST(SpaceTest, RefusesWithLineAndReason) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"\na = { log = [0.0, 1.0] }", "study.toml:2: a: the logarithm of [0, 1] does not exist"},
      {"a = { uniform = [2, 1] }", "no range"},
      {"a = { uniform = [1] }", "takes two limits"},
      {"a = { integer = [1.5, 2] }", "integers"},
      {"a = { choice = [] }", "a choice of nothing"},
      {"a = { choice = [1, 1] }", "stands twice"},
      {"a = { uniform = [0, 1], step = 2.0 }", "must fit into the range"},
      {"a = { uniform = [0, 1], steps = 0.1 }", "\"steps\" has no place"},
      {"a = { uniform = [0, 1], step = 0 }", "greater than 0"},
      {"a = { log = [1, 2], step = 0.5 }", "no steps"},
      {"a = { when = { b = 1 } }", "says not what values"},
      {"a = [1, 2]", "a value is true, false"},
      {"a = { uniform = [0, 1], when = { b = 1 } }", "\"b\", which is not in the space"},
      {"a = { uniform = [0, 1] }\nb = { uniform = [0, 1], when = { a = 1 } }", "a real number"},
      {"a = { choice = [1, 2] }\nb = { uniform = [0, 1], when = { a = 3 } }", "study.toml:2: b: its condition wants"},
      {"a = { choice = [1], when = { b = 1 } }\nb = { choice = [1], when = { a = 1 } }", "lead back to itself"},
      {"a = { uniform = [0, inf] }", "no range"},
  };
  for (const auto& one : cases)
    EXPECT_NE(refusal(one.text).find(one.expected), std::string::npos) << one.text << "\n" << refusal(one.text);
}

TEST(SpaceTest, EveryDiscreteValueOwnsAnEqualPartOfTheUnitInterval) {
  for (const Parameter& parameter :
       {Parameter::integer("i", -3, 3), Parameter::integer("i", 10, 50, 10), Parameter::uniform("u", 0.0, 0.5, 0.1),
        Parameter::choice("c", {"a", true, 3.0})}) {
    const std::uint64_t count = *parameter.count();
    constexpr int kDraws = 10000;
    std::vector<int> seen(count);
    for (int i = 0; i < kDraws; ++i)
      ++seen[parameter.index(parameter.from_unit((i + 0.5) / kDraws))];
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(seen[i], kDraws / static_cast<double>(count), 1.0) << parameter.name << i;
      EXPECT_EQ(parameter.from_unit(parameter.to_unit(parameter.at(i))), parameter.at(i));
      EXPECT_DOUBLE_EQ(parameter.to_unit(parameter.at(i)), (static_cast<double>(i) + 0.5) / static_cast<double>(count));
    }
  }
  EXPECT_EQ(*Parameter::uniform("u", 0.0, 0.5, 0.1).count(), 6u);  // 0.5 is the sixth, although 5 * 0.1 rounds
}

TEST(SpaceTest, LogarithmsAreEven) {
  const Parameter real = Parameter::log_uniform("r", 1e-4, 1.0);
  EXPECT_NEAR(std::get<double>(real.from_unit(0.5)), 1e-2, 1e-15);
  EXPECT_DOUBLE_EQ(real.to_unit(1e-3), 0.25);
  EXPECT_EQ(std::get<double>(real.from_unit(1.0)), 1.0);
  const Parameter whole = Parameter::log_integer("w", 1, 100);
  for (std::int64_t value = 1; value <= 100; ++value)
    EXPECT_EQ(whole.from_unit(whole.to_unit(value)), Value(value));
  // The part of each value is log((v + 0.5) / (v - 0.5)) of the whole.
  int ones = 0;
  for (int i = 0; i < 10000; ++i)
    ones += whole.from_unit((i + 0.5) / 10000) == Value(std::int64_t{1});
  EXPECT_NEAR(ones / 10000.0, std::log(1.5 / 0.5) / std::log(100.5 / 0.5), 2e-4);
}

TEST(SpaceTest, ConditionsDecideWhatIsThere) {
  const Space space({Parameter::uniform("depth", 0, 1).only_when("deep", {true}),  // before the key it asks for
                     Parameter::choice("deep", {true, false}),
                     Parameter::integer("more", 1, 2).only_when("deep", {true}).only_when("kind", {"a"}),
                     Parameter::choice("kind", {"a", "b"})});
  EXPECT_EQ(space.from_units({0.5, 0.1, 0.9, 0.1}),
            (Assignment{{"depth", 0.5}, {"deep", true}, {"more", std::int64_t{2}}, {"kind", "a"}}));
  EXPECT_EQ(space.from_units({0.5, 0.9, 0.9, 0.1}), (Assignment{{"deep", false}, {"kind", "a"}}));
  EXPECT_EQ(space.from_units({0.5, 0.1, 0.9, 0.9}), (Assignment{{"depth", 0.5}, {"deep", true}, {"kind", "b"}}));
}

TEST(SpaceTest, GivenValuesAreCheckedAndFitted) {
  const Space space({Parameter::choice("name", {"sgd", "adam"}),
                     Parameter::uniform("momentum", 0, 1).only_when("name", {"sgd"}),
                     Parameter::integer("batch", 0, 9, 3)});
  const Assignment good{{"batch", std::int64_t{3}}, {"name", "sgd"}, {"momentum", std::int64_t{1}}};
  space.check(good);
  EXPECT_EQ(space.fit(good), (Assignment{{"name", "sgd"}, {"momentum", 1.0}, {"batch", std::int64_t{3}}}));
  for (const Assignment& bad :
       {Assignment{{"name", "sgd"}, {"momentum", 0.5}},                                  // batch is missing
        Assignment{{"name", "adam"}, {"momentum", 0.5}, {"batch", std::int64_t{0}}},     // not active
        Assignment{{"name", "sgd"}, {"momentum", 1.5}, {"batch", std::int64_t{0}}},      // outside
        Assignment{{"name", "adam"}, {"batch", std::int64_t{4}}},                        // between steps
        Assignment{{"name", "adam"}, {"batch", std::int64_t{3}}, {"momentun", 0.1}}}) {  // unknown
    EXPECT_THROW(space.check(bad), Error) << bad.text();
  }
  // An earlier study may have had more keys.
  EXPECT_TRUE(space.fit({{"name", "adam"}, {"batch", std::int64_t{3}}, {"old", 1.0}}).has_value());
  EXPECT_FALSE(space.fit({{"name", "adam"}, {"batch", std::int64_t{4}}}).has_value());
}

TEST(ValueTest, TextsReadBackToTheSameValue) {
  const std::vector<Value> values = {true, std::int64_t{1}, 1.0, 1e-7, 1e22, -0.1, "a \"b\" \\ \n \x7f"};
  for (const Value& value : values) {
    const TomlValue document = parse_toml("v = " + to_toml(value), "v");
    const TomlValue& read = (*document.get<TomlValue::Table>())[0].value;
    const bool same = std::visit(
        [&](const auto& held) {
          const auto* const found = read.get<std::decay_t<decltype(held)>>();
          return found != nullptr && *found == held;
        },
        value);
    EXPECT_TRUE(same) << to_toml(value);
    EXPECT_EQ(value_from_json(parse_json(to_json(value).dump(), "v"), "v"), value) << to_toml(value);
  }
  EXPECT_THROW(value_from_json(Json::array(), "v"), Error);
}

}  // namespace
}  // namespace muster::tuning
