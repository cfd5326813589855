// Every type of field with every limit: read, refused, printed and read again.
#include "muster/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/text.h"
#include "support/sandbox.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// One field of every type that a schema knows, without limits; and a second section that has all limits.
struct Options {
  bool flag = false;
  std::int64_t count = 3;
  double rate = 0.5;
  std::string name = "default";
  std::vector<std::int64_t> sizes{1, 2};
  std::vector<double> weights{0.5};
  std::vector<std::string> words{"a", "b"};
  std::optional<std::int64_t> maybe_count;
  std::optional<double> maybe_rate;
  std::optional<std::string> maybe_name;
  std::optional<std::vector<double>> maybe_weights;

  std::int64_t epochs = 1;
  double lr = 0.1;
  double momentum = 0.9;
  std::string optimizer = "sgd";
  std::vector<std::string> augment;
  std::vector<std::int64_t> milestones{1};
  std::optional<double> clip;
};

struct Bound {
  Options options;
  Schema schema;

  Bound() {
    Section& any = schema.section("any", "Every type.");
    any.field("flag", &options.flag, "A truth.");
    any.field("count", &options.count, "A count.");
    any.field("rate", &options.rate, "A rate.");
    any.field("name", &options.name, "A name.");
    any.field("sizes", &options.sizes, "Some sizes.");
    any.field("weights", &options.weights, "Some weights.");
    any.field("words", &options.words, "Some words.");
    any.field("maybe_count", &options.maybe_count, "A count, or none.");
    any.field("maybe_rate", &options.maybe_rate, "A rate, or none.");
    any.field("maybe_name", &options.maybe_name, "A name, or none.");
    any.field("maybe_weights", &options.maybe_weights, "Some weights, or none.");
    Section& job = schema.section("job", "With limits.");
    job.field("epochs", &options.epochs, "Passes.").range(1, 1000);
    job.field("lr", &options.lr, "Learning rate.").above(0);
    job.field("momentum", &options.momentum, "Momentum.").range(0, 0.999);
    job.field("optimizer", &options.optimizer, "Which | rule.").one_of({"sgd", "adam", "lamb"});
    job.field("augment", &options.augment, "What to do.").one_of({"flip", "crop"});
    job.field("milestones", &options.milestones, "When.").range(1).non_empty();
    job.field("clip", &options.clip, "Norm.").above(0);
  }
};

// The error of loading `text` into a fresh schema.
Error error_of(const std::string& text) {
  Bound bound;
  try {
    bound.schema.load_text(text, "job.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput) << error.what();
    EXPECT_NO_THROW(Json(error.what()).dump());
    return error;
  }
  ADD_FAILURE() << "accepted: " << text;
  return Error(ErrorKind::kInterrupted, "nothing was thrown");
}

// The error of --set `assignment` on a fresh schema.
Error set_error_of(const std::string& assignment) {
  Bound bound;
  try {
    bound.schema.set(assignment);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput) << error.what();
    EXPECT_EQ(error.where(), "--set " + excerpt(assignment, 200));
    EXPECT_NO_THROW(Json(error.what()).dump());
    return error;
  }
  ADD_FAILURE() << "accepted: " << assignment;
  return Error(ErrorKind::kInterrupted, "nothing was thrown");
}

std::ptrdiff_t lines_of(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(Config, ReadsEveryType) {
  Bound bound;
  bound.schema.load_text(
      "[any]\n"
      "flag = true\n"
      "count = -7\n"
      "rate = 1.5e-3\n"
      "name = \"net \\\"1\\\"\"\n"
      "sizes = [784, 2048,\n  10]\n"
      "weights = [1, 2.5]\n"
      "words = ['x', \"y\"]\n"
      "maybe_count = 0x10\n"
      "maybe_rate = 2\n"
      "maybe_name = ''\n"
      "maybe_weights = []\n",
      "job.toml");
  const Options& options = bound.options;
  EXPECT_TRUE(options.flag);
  EXPECT_EQ(options.count, -7);
  EXPECT_EQ(options.rate, 1.5e-3);
  EXPECT_EQ(options.name, "net \"1\"");
  EXPECT_EQ(options.sizes, (std::vector<std::int64_t>{784, 2048, 10}));
  EXPECT_EQ(options.weights, (std::vector<double>{1.0, 2.5}));
  EXPECT_EQ(options.words, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(options.maybe_count, 16);
  EXPECT_EQ(options.maybe_rate, 2.0);
  EXPECT_EQ(options.maybe_name, "");
  EXPECT_EQ(options.maybe_weights, std::vector<double>{});
}

TEST(Config, KeepsTheDefaultOfWhatIsNotThere) {
  Bound bound;
  for (const std::string text : {"", "\n# nothing\n", "[any]\n[job]\n", "\xef\xbb\xbf", "\r\n"}) {
    bound.schema.load_text(text, "job.toml");
    EXPECT_EQ(bound.schema.to_toml(), Bound().schema.to_toml());
  }
}

TEST(Config, ReadsDottedKeysAndInlineTables) {
  Bound bound;
  bound.schema.load_text("any.count = 5\njob = { epochs = 9, lr = 2 }\n", "job.toml");
  EXPECT_EQ(bound.options.count, 5);
  EXPECT_EQ(bound.options.epochs, 9);
  EXPECT_EQ(bound.options.lr, 2.0);
}

TEST(Config, ReadsIntegersByName) {
  NamedIntegers mesh;
  Schema schema;
  schema.section("parallel", "Who.").field("mesh", &mesh, "Sizes.").one_of({"data", "pipeline"}).range(1, 64);
  EXPECT_FALSE(schema.chosen("parallel.mesh"));
  schema.load_text("[parallel]\nmesh = { data = 2, pipeline = 4 }\n", "j");
  EXPECT_EQ(mesh, (NamedIntegers{{"data", 2}, {"pipeline", 4}}));
  EXPECT_TRUE(schema.chosen("parallel.mesh"));
  const std::string printed = schema.to_toml();
  EXPECT_THAT(printed, HasSubstr("mesh = { data = 2, pipeline = 4 }"));
  EXPECT_EQ(schema.to_json()["parallel"]["mesh"]["pipeline"], 4);
  schema.set("parallel.mesh={pipeline=3}");
  EXPECT_EQ(mesh, (NamedIntegers{{"pipeline", 3}}));
  schema.load_text(printed, "again");
  EXPECT_EQ(mesh.at("data"), 2);
  const auto refused = [&](const std::string& value) -> std::string {
    try {
      schema.load_text("[parallel]\nmesh = " + value + "\n", "j");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refused("{ tensor = 2 }"), AllOf(HasSubstr("tensor"), HasSubstr("table of integers: data, pipeline")));
  EXPECT_THAT(refused("{ data = 65 }"), HasSubstr("data: found 65"));
  EXPECT_THAT(refused("{ data = 2.5 }"), HasSubstr("found a table"));
  EXPECT_THAT(refused("4"), HasSubstr("found 4"));
  EXPECT_EQ(refused("{}"), "");
  EXPECT_FALSE(schema.chosen("parallel.mesh"));
}

TEST(Config, RemembersWhereAValueCameFrom) {
  Bound bound;
  EXPECT_EQ(bound.schema.where("job.epochs"), "");
  bound.schema.load_text("# comment\n[job]\n\nepochs = 5\r\nlr = 1\n", "dir/job.toml");
  EXPECT_EQ(bound.schema.where("job.epochs"), "dir/job.toml:4");
  EXPECT_EQ(bound.schema.where("job.lr"), "dir/job.toml:5");
  EXPECT_EQ(bound.schema.where("job.momentum"), "");
  bound.schema.set("job.epochs=6");
  EXPECT_EQ(bound.schema.where("job.epochs"), "--set job.epochs=6");
}

TEST(Config, AnErrorAboutSeveralKeysNamesThePlace) {
  Bound bound;
  EXPECT_EQ(bound.schema.invalid("job.epochs", "too many").where(), "");
  bound.schema.load_text("[job]\nepochs = 5\n", "job.toml");
  const Error error = bound.schema.invalid("job.epochs", "more than steps", "Lower it.");
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  EXPECT_STREQ(error.what(), "job.toml:2: job.epochs: more than steps. Lower it.");
  EXPECT_EQ(bound.schema.invalid("job.lr", "x").where(), "job.toml");  // a default: the file
  bound.schema.set("job.lr=3");
  EXPECT_EQ(bound.schema.invalid("job.lr", "x").where(), "--set job.lr=3");
  EXPECT_EQ(bound.schema.invalid("job.momentum", "x").where(), "job.toml");
}

TEST(Config, AnUnknownSectionIsNamedWithTheNearest) {
  const Error error = error_of("[any]\ncount = 1\n\n[jbo]\nepochs = 1\n");
  EXPECT_STREQ(error.what(), "job.toml:4: [jbo] is not a section (did you mean \"job\"?). Sections are any and job.");
  EXPECT_STREQ(error_of("[zebra]").what(), "job.toml:1: [zebra] is not a section. Sections are any and job.");
}

TEST(Config, AnUnknownKeyIsNamedWithTheNearest) {
  const Error error = error_of("[job]\n\nepoch = 1\n");
  EXPECT_EQ(error.where(), "job.toml:3");
  EXPECT_EQ(error.message(), "job.epoch is not a key (did you mean \"epochs\"?)");
  EXPECT_THAT(error.remedy(), HasSubstr("epochs, lr, momentum, optimizer, augment, milestones and clip"));
  EXPECT_EQ(error_of("[job]\nzebra = 1").message(), "job.zebra is not a key");
  EXPECT_EQ(error_of("[job.epochs]\nx = 1").message(), "job.epochs: found a table");
  EXPECT_EQ(error_of("[job]\nsgd.lr = 1").message(), "job.sgd is not a key");
}

TEST(Config, AKeyOutsideItsSectionIsRefused) {
  const Error error = error_of("\nepochs = 3\n");
  EXPECT_EQ(error.where(), "job.toml:2");
  EXPECT_THAT(error.message(), HasSubstr("epochs"));
  EXPECT_EQ(error_of("job = 3\n").message(), "job is 3 (an integer), not a section");
  EXPECT_EQ(error_of("[[job]]\nepochs = 3\n").message(), "job is an array of 1, not a section");
}

TEST(Config, AWrongTypeSaysWhatWasFoundAndWhatIsExpected) {
  const auto complaint = [](const std::string& line) { return std::string(error_of("[any]\n" + line).what()); };
  EXPECT_EQ(complaint("flag = 1"), "job.toml:2: any.flag: found 1 (an integer). Expected boolean.");
  EXPECT_EQ(complaint("flag = \"true\""), "job.toml:2: any.flag: found \"true\" (a string). Expected boolean.");
  EXPECT_EQ(complaint("count = 1.0"), "job.toml:2: any.count: found 1.0 (a number). Expected integer.");
  EXPECT_EQ(complaint("count = true"), "job.toml:2: any.count: found true (a boolean). Expected integer.");
  EXPECT_EQ(complaint("rate = \"1\""), "job.toml:2: any.rate: found \"1\" (a string). Expected number.");
  EXPECT_EQ(complaint("name = 1979-05-27"), "job.toml:2: any.name: found a date or time. Expected string.");
  EXPECT_EQ(complaint("name = ['x']"), "job.toml:2: any.name: found an array of 1. Expected string.");
  EXPECT_EQ(complaint("sizes = 1"), "job.toml:2: any.sizes: found 1 (an integer). Expected array of integers.");
  EXPECT_EQ(complaint("sizes = [1, 2.5]"),
            "job.toml:2: any.sizes: element 2 is 2.5 (a number). Expected array of integers.");
  EXPECT_EQ(complaint("weights = [1.5, 'x']"),
            "job.toml:2: any.weights: element 2 is \"x\" (a string). Expected array of numbers.");
  EXPECT_EQ(complaint("words = ['x', ['y']]"),
            "job.toml:2: any.words: element 2 is an array of 1. Expected array of strings.");
  EXPECT_EQ(complaint("maybe_count = 'x'"), "job.toml:2: any.maybe_count: found \"x\" (a string). Expected integer.");
  EXPECT_EQ(complaint("maybe_rate = {}"), "job.toml:2: any.maybe_rate: found a table. Expected number.");
  EXPECT_EQ(
      complaint("maybe_name = 1"),
      "job.toml:2: any.maybe_name: found 1 (an integer). Expected string. Text stands in quotes: maybe_name = \"1\".");
  EXPECT_EQ(complaint("maybe_weights = [[]]"),
            "job.toml:2: any.maybe_weights: element 1 is an array of 0. Expected array of numbers.");
}

TEST(Config, AMessageStaysShortHoweverLongTheValue) {
  EXPECT_LT(std::string(error_of("[any]\ncount = \"" + std::string(60'000, 'x') + "\"").what()).size(), 300U);
  EXPECT_LT(std::string(error_of("[job]\noptimizer = \"" + std::string(60'000, 'x') + "\"").what()).size(), 300U);
  EXPECT_LT(std::string(error_of("[" + std::string(60'000, 'x') + "]").what()).size(), 300U);
  EXPECT_LT(std::string(error_of("[any]\n" + std::string(60'000, 'x') + " = 1").what()).size(), 300U);
  EXPECT_LT(
      std::string(error_of(std::string(30'000, 'x') + " = 1\n" + std::string(30'000, 'x') + " = 1").what()).size(),
      400U);
  // 59 letters and one of two bytes: the cut falls inside it.
  EXPECT_THAT(error_of("[any]\ncount = \"" + std::string(59, 'x') + "\xc3\xa4\xc3\xa4\"").message(),
              HasSubstr("xxx...\" (a string)"));
}

TEST(Config, LimitsAreInclusiveUnlessTheyAreNot) {
  const auto accepts = [](const std::string& line) {
    Bound bound;
    EXPECT_NO_THROW(bound.schema.load_text("[job]\n" + line, "job.toml")) << line;
  };
  for (const std::string line :
       {"epochs = 1", "epochs = 1000", "lr = 1e-300", "lr = 1e300", "momentum = 0", "momentum = 0.999",
        "optimizer = 'lamb'", "augment = []", "augment = ['crop', 'crop']", "milestones = [1, 9]", "clip = 0.5"}) {
    accepts(line);
  }
  const auto complaint = [](const std::string& line) { return std::string(error_of("[job]\n" + line).what()); };
  EXPECT_EQ(complaint("epochs = 0"), "job.toml:2: job.epochs: found 0. Expected integer, 1 to 1000.");
  EXPECT_EQ(complaint("epochs = 1001"), "job.toml:2: job.epochs: found 1001. Expected integer, 1 to 1000.");
  EXPECT_EQ(complaint("lr = 0"), "job.toml:2: job.lr: found 0.0. Expected number, greater than 0.");
  EXPECT_EQ(complaint("lr = -1"), "job.toml:2: job.lr: found -1.0. Expected number, greater than 0.");
  EXPECT_EQ(complaint("momentum = 1"), "job.toml:2: job.momentum: found 1.0. Expected number, 0 to 0.999.");
  EXPECT_EQ(complaint("optimizer = 'adm'"),
            "job.toml:2: job.optimizer: found \"adm\" (did you mean \"adam\"?). Expected one of \"sgd\", \"adam\", "
            "\"lamb\".");
  EXPECT_EQ(complaint("augment = ['crop', 'flpi']"),
            "job.toml:2: job.augment: found \"flpi\" (did you mean \"flip\"?). Expected array of: \"flip\", \"crop\".");
  EXPECT_EQ(complaint("milestones = [3, 0]"),
            "job.toml:2: job.milestones: found 0. Expected non-empty array of integers, 1 or more.");
  EXPECT_EQ(complaint("milestones = []"),
            "job.toml:2: job.milestones: the array is empty. Expected non-empty array of integers, 1 or more.");
  EXPECT_EQ(complaint("clip = 0.0"), "job.toml:2: job.clip: found 0.0. Expected number, greater than 0.");
}

TEST(Config, NotANumberAndInfinityAreRefusedWhereThereIsALimit) {
  for (const std::string value : {"nan", "+nan", "-nan", "inf", "+inf", "-inf"}) {
    for (const std::string key : {"lr", "momentum", "clip"})
      EXPECT_THAT(error_of("[job]\n" + key + " = " + value).message(), HasSubstr("job." + key + ": found "));
  }
  Bound bound;
  bound.schema.load_text("[any]\nrate = nan\nweights = [inf, -inf]\n", "job.toml");
  EXPECT_TRUE(std::isnan(bound.options.rate));
}

TEST(Config, SyntaxErrorsNameTheRightLine) {
  struct Row {
    std::string text;
    int line;
  };
  const std::vector<Row> table{
      {"[job]\nepochs = \n", 2},
      {"[job]\n\n\nepochs\n", 4},
      {"[job\nepochs = 1\n", 1},
      {"[job]\nepochs = 1 2\n", 2},
      {"[any]\ncount = 1\nname = \"abc\nflag = true\n", 3},
      {"[any]\nsizes = [1,\n2\ncount = 3\n", 2},
      {"[any]\nsizes = [1,\n2\n3]\n", 4},
      {"[any]\nname = abc\n", 2},
      {"[any]\n\ncount = 01\n", 3},
      {"[any]\nname = \"\\q\"\n", 2},
      {"[any]\n= 3\n", 2},
      {"]\n", 1},
      {"[any]\nname = \"\\ud800\"\n", 2},
      {"[any]\ncount = 1979-13-99\n", 2},
      {"[any]\nmaybe_name = {x = 1, y}\n", 2},
      {"[any]\nflag = trueish\n", 2},
      {"[any]\nflag = tru\n", 2},
      {"[any]\ncount = 0o\n", 2},
      {"[any]\ncount = 0x\n", 2},
  };
  for (const Row& row : table) {
    const Error error = error_of(row.text);
    EXPECT_EQ(error.where(), "job.toml:" + std::to_string(row.line)) << row.text << error.what();
    EXPECT_THAT(error.message(), ::testing::Not(HasSubstr("toml::"))) << row.text;
    EXPECT_THAT(error.message(), ::testing::Not(HasSubstr("parse_"))) << row.text;
    EXPECT_THAT(error.message(), ::testing::Not(HasSubstr("\n"))) << row.text;
    EXPECT_THAT(error.message(), ::testing::ContainsRegex("[^: ]$")) << row.text;  // a reason, not "not valid TOML: "
  }
}

TEST(Config, WhatStandsTwiceIsRefusedWhereItStandsAgain) {
  EXPECT_EQ(error_of("[job]\nepochs = 1\n\nepochs = 2\n").where(), "job.toml:4");
  EXPECT_EQ(error_of("[job]\nepochs = 1\n[any]\n[job]\nlr = 2\n").where(), "job.toml:4");
  EXPECT_EQ(error_of("job.epochs = 1\njob.epochs = 1\n").where(), "job.toml:2");
  EXPECT_EQ(error_of("job = {epochs = 1}\n\n[job]\nlr = 1\n").where(), "job.toml:3");
}

TEST(Config, TheFirstErrorInTheFileIsTheOneReported) {
  EXPECT_EQ(error_of("[zebra]\nx = 1\n[job]\nepochs = 0\n").where(), "job.toml:1");
  EXPECT_EQ(error_of("[job]\nepochs = 0\n[zebra]\nx = 1\n").where(), "job.toml:2");
  // Many unknown keys: a table that is read in the order of its hashes would name some other one.
  std::string text = "[job]\n";
  for (int i = 0; i < 50; ++i)
    text += "zebra" + std::to_string((i * 37) % 50) + " = 1\n";
  EXPECT_EQ(error_of(text).where(), "job.toml:2");
}

TEST(Config, HostileTextIsRefusedBeforeTheParserSeesIt) {
  EXPECT_THAT(error_of("[any]\nsizes = " + std::string(60'000, '[')).message(), HasSubstr("nested deeper"));
  EXPECT_EQ(error_of(std::string("[any]\n\ncount = 1\0\n", 18)).where(), "job.toml:3");
  EXPECT_THAT(error_of("[any]\nname = \"\xff\"\n").message(), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of("[any]\ncount = 99999999999999999999\n").message(), HasSubstr("99999999999999999999"));
  EXPECT_THAT(error_of("[any]\nrate = 1e999\n").message(), HasSubstr("1e999"));
}

TEST(Config, LoadsAFile) {
  const testing::TemporaryFolder folder;
  testing::spill(folder / "job.toml", "[job]\nepochs = 7\n");
  Bound bound;
  bound.schema.load_file(folder / "job.toml");
  EXPECT_EQ(bound.options.epochs, 7);
  EXPECT_EQ(bound.schema.where("job.epochs"), (folder / "job.toml").string() + ":2");
}

TEST(Config, AFileThatCannotBeReadIsNamed) {
  const testing::TemporaryFolder folder;
  Bound bound;
  const auto kind_of = [&](const std::filesystem::path& path) {
    try {
      bound.schema.load_file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), path.string());
      return error.kind();
    }
    return ErrorKind::kInterrupted;
  };
  EXPECT_EQ(kind_of(folder / "none.toml"), ErrorKind::kNotFound);
  EXPECT_EQ(kind_of(folder.path()), ErrorKind::kInvalidInput);
  testing::spill(folder / "big.toml", std::string((64 << 10) + 1, '#'));
  EXPECT_EQ(kind_of(folder / "big.toml"), ErrorKind::kDamaged);
}

TEST(ConfigSet, TakesValuesWithAndWithoutQuotes) {
  Bound bound;
  bound.schema.set("any.count=12");
  bound.schema.set("any.flag=true");
  bound.schema.set("any.rate=1e-3");
  bound.schema.set("any.name=resnet-18/a b.toml#1");
  EXPECT_EQ(bound.options.count, 12);
  EXPECT_TRUE(bound.options.flag);
  EXPECT_EQ(bound.options.rate, 1e-3);
  EXPECT_EQ(bound.options.name, "resnet-18/a b.toml#1");
  bound.schema.set("any.name=\"quoted\"");
  EXPECT_EQ(bound.options.name, "quoted");
  bound.schema.set("any.name='a=b'");
  EXPECT_EQ(bound.options.name, "a=b");
  bound.schema.set("any.name=");
  EXPECT_EQ(bound.options.name, "");
  bound.schema.set("any.name=a=b");
  EXPECT_EQ(bound.options.name, "a=b");
  bound.schema.set("any.name=say \"x\" \\ twice");
  EXPECT_EQ(bound.options.name, "say \"x\" \\ twice");
  bound.schema.set("any.name=29");  // shells take quotes away
  EXPECT_EQ(bound.options.name, "29");
  bound.schema.set("any.maybe_name=true");
  EXPECT_EQ(bound.options.maybe_name, "true");
  bound.schema.set("any.sizes=[5, 6]");
  EXPECT_EQ(bound.options.sizes, (std::vector<std::int64_t>{5, 6}));
  bound.schema.set("any.maybe_name=x\ty");
  EXPECT_EQ(bound.options.maybe_name, "x\ty");
}

TEST(ConfigSet, CannotSmuggleInOtherKeys) {
  Bound bound;
  bound.schema.set("any.name=x\nflag = true");
  EXPECT_EQ(bound.options.name, "x\nflag = true");
  bound.schema.set("any.name=\"x\"\nflag = true\n");
  EXPECT_EQ(bound.options.name, "\"x\"\nflag = true\n");
  EXPECT_FALSE(bound.options.flag);
  set_error_of("any.count=1\n[job]");
  set_error_of("any.count=1\r\n[job]");
}

TEST(ConfigSet, NamesTheFlagInItsErrors) {
  EXPECT_EQ(set_error_of("job.epochs=0").message(), "job.epochs: found 0");
  EXPECT_EQ(set_error_of("job.epochs=many").message(), "job.epochs: found \"many\" (a string)");
  EXPECT_EQ(set_error_of("job.epoch=3").message(), "job.epoch is not a key (did you mean \"epochs\"?)");
  EXPECT_EQ(set_error_of("jbo.epochs=3").message(), "[jbo] is not a section (did you mean \"job\"?)");
  EXPECT_EQ(set_error_of("any.sizes=[1, 2").message(), "any.sizes: found \"[1, 2\" (a string)");
  EXPECT_THAT(set_error_of("any.count=" + std::string(1000, '[')).message(), HasSubstr("any.count: found \"[[["));
}

TEST(ConfigSet, RefusesWhatHasNotTheForm) {
  for (const std::string text : {"", "job", "job.epochs", "=", "epochs=3", ".epochs=3", "job.=3", ".=", "job=a.b",
                                 "job.a.b=3", "j b.epochs=3", "[job].epochs=3", "job.\"epochs\"=3", "job.epochs\n=3"}) {
    EXPECT_EQ(set_error_of(text).message(), "not of the form section.key=value") << text;
  }
}

TEST(ConfigSet, RefusesBytesThatAreNoText) {
  set_error_of("any.name=\xff");
  set_error_of("any.maybe_name=caf\xe9");
}

TEST(ConfigSet, TheNumberTooLargeForItsTypeIsRefused) {
  EXPECT_THAT(set_error_of("any.count=99999999999999999999").message(), HasSubstr("99999999999999999999"));
  EXPECT_THAT(set_error_of("any.rate=1e999").message(), HasSubstr("1e999"));
}

TEST(Config, PrintsWhatItReadsBack) {
  Bound first;
  Options& options = first.options;
  options.flag = true;
  options.count = std::numeric_limits<std::int64_t>::min();
  options.rate = 0.1;
  options.name =
      "quote \" backslash \\ tab \t newline \n return \r escape \x1b delete \x7f unit \x1f \xc3\xa4\xe2\x82\xac";
  options.name += std::string("\0zero", 5);
  options.sizes = {std::numeric_limits<std::int64_t>::max(), 0, -1};
  options.weights = {5e-324,
                     std::numeric_limits<double>::min(),
                     std::numeric_limits<double>::max(),
                     std::numeric_limits<double>::lowest(),
                     std::numeric_limits<double>::epsilon(),
                     1.0 / 3,
                     1e16,
                     1e22,
                     123456789012345678.0,
                     -0.0,
                     1e-7,
                     3.0,
                     std::numeric_limits<double>::infinity(),
                     -std::numeric_limits<double>::infinity()};
  options.words = {"", "#", "[", "a = 1", "'''", "\"\"\"", "\\u0041", "\n"};
  options.maybe_count = -1;
  options.maybe_rate = 1e300;
  options.maybe_name = "";
  options.maybe_weights = std::vector<double>{};
  options.augment = {"crop"};
  options.clip = 1e-9;

  Bound second;
  second.schema.load_text(first.schema.to_toml(), "resolved.toml");
  const Options& read = second.options;
  EXPECT_EQ(read.flag, options.flag);
  EXPECT_EQ(read.count, options.count);
  EXPECT_EQ(read.rate, options.rate);
  EXPECT_EQ(read.name, options.name);
  EXPECT_EQ(read.sizes, options.sizes);
  EXPECT_EQ(read.weights, options.weights);
  EXPECT_TRUE(std::signbit(read.weights[9]));
  EXPECT_EQ(read.words, options.words);
  EXPECT_EQ(read.maybe_count, options.maybe_count);
  EXPECT_EQ(read.maybe_rate, options.maybe_rate);
  EXPECT_EQ(read.maybe_name, options.maybe_name);
  EXPECT_EQ(read.maybe_weights, options.maybe_weights);
  EXPECT_EQ(read.augment, options.augment);
  EXPECT_EQ(read.clip, options.clip);
  EXPECT_EQ(second.schema.to_toml(), first.schema.to_toml());
}

TEST(Config, EveryControlCharacterReadsBack) {
  Bound first;
  first.options.name.clear();
  for (char c = 0; c < 0x7f; ++c)
    first.options.name += c;
  first.options.name += '\x7f';
  Bound second;
  second.schema.load_text(first.schema.to_toml(), "resolved.toml");
  EXPECT_EQ(second.options.name, first.options.name);
}

TEST(Config, LongArraysReadBack) {
  Bound first;
  for (int i = 0; i < 1000; ++i) {
    first.options.sizes.push_back(std::numeric_limits<std::int64_t>::min() + i);
    first.options.words.push_back("word " + std::to_string(i));
    first.options.weights.push_back(1.0 / (i + 3));
  }
  first.options.words[7] = std::string(300, 'x');
  Bound second;
  second.schema.load_text(first.schema.to_toml(), "resolved.toml");
  EXPECT_EQ(second.options.sizes, first.options.sizes);
  EXPECT_EQ(second.options.words, first.options.words);
  EXPECT_EQ(second.options.weights, first.options.weights);
  EXPECT_EQ(lines_of(first.schema.to_markdown()), lines_of(Bound().schema.to_markdown()));
}

TEST(Config, AnEmptyOptionalIsPrintedAsAComment) {
  Bound bound;
  EXPECT_THAT(bound.schema.to_toml(), HasSubstr("\n# maybe_count is not set\n"));
  Bound second;
  second.schema.load_text(bound.schema.to_toml(), "resolved.toml");
  EXPECT_EQ(second.options.maybe_count, std::nullopt);
  EXPECT_EQ(second.options.clip, std::nullopt);
}

TEST(Config, PrintsJson) {
  Bound bound;
  bound.options.maybe_name = "given";
  bound.options.rate = std::numeric_limits<double>::quiet_NaN();
  const Json json = parse_json(bound.schema.to_json().dump(), "x");
  EXPECT_EQ(json["any"]["flag"], false);
  EXPECT_EQ(json["any"]["count"], 3);
  EXPECT_TRUE(json["any"]["rate"].is_null());
  EXPECT_EQ(json["any"]["sizes"].dump(), "[1,2]");
  EXPECT_EQ(json["any"]["words"].dump(), R"(["a","b"])");
  EXPECT_EQ(json["any"]["maybe_name"], "given");
  EXPECT_FALSE(json["any"].contains("maybe_count"));
  EXPECT_EQ(json["job"]["optimizer"], "sgd");
  EXPECT_EQ(json.begin().key(), "any");
}

TEST(Config, ThePageNamesEveryKeyWithTypeDefaultAndHelp) {
  const Bound bound;
  const std::string page = bound.schema.to_markdown();
  int rows = 0;
  for (const Section& section : bound.schema.sections()) {
    EXPECT_THAT(page, HasSubstr("## [" + section.name() + "]\n\n" + section.help()));
    for (const Field& field : section.fields()) {
      ++rows;
      EXPECT_THAT(page, HasSubstr("\n| `" + field.key() + "` | " + field.allowed() + " | "));
    }
  }
  EXPECT_EQ(rows, 18);
  EXPECT_THAT(page, HasSubstr("| `epochs` | integer, 1 to 1000 | `1` | Passes. |\n"));
  EXPECT_THAT(page, HasSubstr("| `maybe_rate` | number | not set | A rate, or none. |\n"));
  EXPECT_THAT(page, HasSubstr("| Which \\| rule. |\n"));  // a bar would start a new cell
}

TEST(Config, ANamedDefaultIsNotAChange) {
  Bound bound;
  bound.schema.load_text("[any]\ncount = 3\nrate = 0.75\nmaybe_rate = 1\n", "job.toml");
  EXPECT_FALSE(bound.schema.changed("any.count"));
  EXPECT_FALSE(bound.schema.changed("any.name"));
  EXPECT_TRUE(bound.schema.changed("any.rate"));
  EXPECT_TRUE(bound.schema.changed("any.maybe_rate"));
}

}  // namespace
}  // namespace muster
