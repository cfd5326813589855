// Counts, ratios and their three forms, with names that try to break them.
#include "muster/cli/confusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/cli/csv_text.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

data::SampleSpec named() {
  data::SampleSpec spec;
  spec.classes = 3;
  spec.class_names = {"cat", "a,b", "<dog>"};
  return spec;
}

Confusion example() {
  Confusion confusion(3);
  for (int i = 0; i < 8; ++i)
    confusion.add(0, 0);
  confusion.add(0, 2);
  confusion.add(0, 1);
  confusion.add(0, 2);
  confusion.add(1, 1);
  confusion.add(1, 0);
  confusion.add(1, 7);  // a score that no class has
  return confusion;
}

TEST(ConfusionMatrix, CountsPrecisionAndRecall) {
  const Confusion confusion = example();
  EXPECT_EQ(confusion.count(0, 2), 2U);
  EXPECT_EQ(confusion.of_target(0), 11U);
  EXPECT_EQ(confusion.of_answer(0), 9U);
  EXPECT_DOUBLE_EQ(confusion.recall(0), 8.0 / 11);
  EXPECT_DOUBLE_EQ(confusion.precision(0), 8.0 / 9);
  EXPECT_EQ(confusion.recall(2), 0) << "no sample has it";
}

TEST(ConfusionMatrix, IsToldAsText) {
  EXPECT_THAT(confusion_text(example(), named()), HasSubstr("<dog> (2)"));
  EXPECT_EQ(confusion_csv(example(), named()), "class,cat,\"a,b\",<dog>\ncat,8,1,2\n\"a,b\",1,1,0\n<dog>,0,0,0\n");
}

TEST(ConfusionMatrix, IsDrawnWithNamesThatCannotBreakThePicture) {
  const std::string svg = confusion_svg(example(), named());
  EXPECT_THAT(svg, HasSubstr("&lt;dog&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<dog>")));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr(">8</text>"));
}

TEST(ConfusionMatrix, NumbersStandInForNamesThatNobodyGave) {
  EXPECT_EQ(class_name(named(), 1), "a,b");
  EXPECT_EQ(class_name({}, 4), "4");
}

TEST(CsvField, IsQuotedOnlyWhereItHasToBe) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
}

}  // namespace
}  // namespace muster::cli
