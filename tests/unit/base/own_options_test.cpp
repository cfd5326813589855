// Options of users' own parts: read by a schema that does not know them, and checked by who does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/config.h"
#include "muster/base/own_options.h"
#include "support/errors.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Read {
  std::int64_t depth = 1;
  OwnOptions options;
  Schema schema;

  explicit Read(const std::string& text) {
    Section& section = schema.section("model", "A model.");
    section.field("depth", &depth, "Layers.");
    section.field("options", &options, "Its own.");
    schema.load_text(text, "job.toml");
  }
  const Field& field() const { return schema.sections().front().fields().back(); }
};

const std::vector<OwnKey>& keys() {
  static const std::vector<OwnKey> all{{"layers", 2, "Layers.", 1, 8},
                                       {"rate", 0.5, "A rate.", 0, 1},
                                       {"mode", "fast", "A mode.", {}, {}, {"fast", "slow"}},
                                       {"sizes", std::vector<double>{1, 2}, "Sizes.", 0},
                                       {"names", std::vector<std::string>{}, "Names."},
                                       {"on", false, "A switch."}};
  return all;
}

OwnOptions complete(const std::string& toml) {
  return complete_options(keys(), Read("[model.options]\n" + toml).options, "model.options", "model mine");
}

TEST(OwnOptions, HaveEveryKeyWithItsType) {
  const OwnOptions some = complete("layers = 3\nrate = 1\nsizes = [3, 4.5]\nnames = [\"a\"]\n");
  EXPECT_EQ(some.get<std::int64_t>("layers"), 3);
  EXPECT_EQ(some.get<double>("rate"), 1.0) << "an integer is a number";
  EXPECT_EQ(some.get<std::string>("mode"), "fast");
  EXPECT_EQ(some.get<std::vector<double>>("sizes"), (std::vector<double>{3, 4.5}));
  EXPECT_EQ(some.get<std::vector<std::string>>("names"), (std::vector<std::string>{"a"}));
  EXPECT_FALSE(some.get<bool>("on"));
  EXPECT_TRUE(complete("names = []\nsizes = []\non = true").get<std::vector<double>>("sizes").empty());
  EXPECT_EQ(complete("sizes = [3, 4]").get<std::vector<double>>("sizes"), (std::vector<double>{3, 4}));
  EXPECT_THROW(some.get<std::int64_t>("rate"), std::invalid_argument);
  EXPECT_THROW(some.get<double>("none"), std::invalid_argument);
}

TEST(OwnOptions, ThatThePartDoesNotTakeNameTheKeyAndWhatItTakes) {
  const auto refused = [](const std::string& toml, const std::string& key, const std::string& words) {
    try {
      complete(toml);
      ADD_FAILURE() << toml;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      EXPECT_EQ(error.where(), "model.options." + key);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  refused("layer = 3", "layer", "model mine has no such option (did you mean \"layers\"?)");
  refused("layers = 3.0", "layers", "found 3.0 (number)");
  refused("layers = 9", "layers", "Expected integer, 1 to 8: Layers.");
  refused("rate = \"fast\"", "rate", "found \"fast\" (string)");
  refused("mode = \"quick\"", "mode", "Expected one of \"fast\", \"slow\"");
  refused("sizes = [1, -1]", "sizes", "found -1");
  refused("sizes = [\"a\"]", "sizes", "(array of strings)");
  refused("names = \"\"", "names", "(string)");
  refused("on = 1", "on", "found 1 (integer)");
}

TEST(OwnOptions, OfAFileAndOfSetAddUpAndKeepTheirPlaces) {
  Read read("[model]\ndepth = 2\n[model.options]\nlayers = 3\nrate = 0.25\n");
  read.schema.set("model.options.rate=0.75");
  read.schema.set("model.options.mode=slow");
  EXPECT_EQ(read.options.values().size(), 3U);
  EXPECT_EQ(read.options.get<double>("rate"), 0.75);
  EXPECT_EQ(read.options.get<std::string>("mode"), "slow");
  EXPECT_EQ(read.field().inner_places().at("layers"), "job.toml:4");
  EXPECT_EQ(read.field().inner_places().at("rate"), "--set model.options.rate=0.75");
  // What is printed is read back.
  EXPECT_EQ(Read(read.schema.to_toml()).options.values(), read.options.values());
  EXPECT_EQ(read.schema.to_json().at("model").at("options").dump(), R"({"layers":3,"mode":"slow","rate":0.75})");
  EXPECT_TRUE(read.schema.chosen("model.options"));
  EXPECT_FALSE(Read("[model]\ndepth = 2").schema.chosen("model.options"));
}

TEST(OwnOptions, TakeNoTablesNoDatesAndNoMixedArrays) {
  for (const char* text : {"a = { b = 1 }", "a = 1979-05-27", "a = [1, \"b\"]", "a = [[1]]"})
    testing::expect_error(ErrorKind::kInvalidInput, "a is ", [&] { complete(text); });
  testing::expect_error(ErrorKind::kInvalidInput, "table of options", [] { Read("[model]\noptions = 3"); });
  Read read("");
  testing::expect_error(ErrorKind::kInvalidInput, "section.key=value", [&] { read.schema.set("model.depth.a=3"); });
}

TEST(OwnOptions, AreDescribedForPeople) {
  EXPECT_EQ(describe(keys()[0]), "layers: integer, 1 to 8; 2 if not set. Layers.");
  EXPECT_EQ(describe(keys()[2]), "mode: one of \"fast\", \"slow\"; \"fast\" if not set. A mode.");
}

}  // namespace
}  // namespace muster
