// Lines as people write them wrongly, and what they are told.
#include "muster/base/toml_advice.h"

#include <gtest/gtest.h>

#include "muster/base/config.h"
#include "support/errors.h"

namespace muster {
namespace {

TEST(TomlAdvice, KnowsWhatPeopleGetWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"name = mlp", "Text stands in quotes: name = \"mlp\"."},
      {"path = data/x.csv   # mine", "Text stands in quotes: path = \"data/x.csv\"."},
      {"runs = ~/runs", "Text stands in quotes: runs = \"~/runs\"."},
      {"name = “x”", "Use straight quotes: name = \"...\"."},
      {"ledger = True", "Write ledger = true."},
      {"ledger = no", "Write ledger = false."},
      {"lr = 0,1", "A number has a point, not a comma."},
      {"epochs =", "A value is missing behind epochs =."},
      {"epochs: 3", "Write epochs = ..., with an equals sign."},
      {"augment = [flip, crop]", "Text stands in quotes, also in lists: augment = [\"a\", \"b\"]."},
      {"age,work,pay", "A line is [section], key = value, or a comment that begins with #."},
      {"lr = 0.1.2", ""},
      {"[job", ""},
      {"", ""}};
  for (const auto& [line, expected] : cases)
    EXPECT_EQ(toml_advice("[job]\n" + line + "\nseed = 1\n", 2), expected) << line;
  EXPECT_EQ(toml_advice("[job]\n", 9), "");
}

TEST(TomlAdvice, StandsInTheMessage) {
  std::string name;
  Schema schema;
  schema.section("job", "").field("name", &name, "");
  const Error error = testing::error_of([&] { schema.load_text("[job]\nname = mlp\n", "job.toml"); });
  EXPECT_EQ(error.where(), "job.toml:2");
  EXPECT_EQ(error.remedy(), "Text stands in quotes: name = \"mlp\".");
}

}  // namespace
}  // namespace muster
