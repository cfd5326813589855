// What columns are taken for, declared or inferred, and what is said of rows that do not fit.
#include "muster/data/table.h"
#include "muster/data/byte_reader.h"
#include "muster/data/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Table read(std::string_view text, const TableOptions& options = {}, BadSamples* bad = nullptr,
           const Table* like = nullptr) {
  CsvReader reader(ByteReader::of_memory(std::as_bytes(std::span(text)), "t.csv"), "t.csv", options.delimiter);
  BadSamples strict({});
  return read_table(reader, options, bad != nullptr ? *bad : strict, like);
}

std::optional<Error> refusal(std::string_view text, const TableOptions& options = {}) {
  return error_of([&] { read(text, options); });
}

TEST(ReadTable, InfersNumbersAndCategoriesAndTakesTheLastColumnAsTarget) {
  const Table table = read("age,colour,class\n1.5,red,b\n2,blue,a\n-3e1,red,b\n");
  ASSERT_EQ(table.columns.size(), 3U);
  EXPECT_EQ(table.rows, 3U);
  EXPECT_THAT(table.targets, ElementsAre(2));
  EXPECT_EQ(table.columns[0].kind, ColumnKind::kNumeric);
  EXPECT_THAT(table.columns[0].values, ElementsAre(1.5F, 2.0F, -30.0F));
  EXPECT_EQ(table.columns[1].kind, ColumnKind::kCategorical);
  EXPECT_THAT(table.columns[1].categories, ElementsAre("blue", "red"));
  EXPECT_THAT(table.columns[1].values, ElementsAre(1, 0, 1));
  EXPECT_THAT(table.columns[2].categories, ElementsAre("a", "b"));
  EXPECT_THAT(table.columns[2].values, ElementsAre(1, 0, 1));
  EXPECT_EQ(table.bytes_per_row(), 12U);
}

TEST(ReadTable, DeclarationsOverruleWhatColumnsLookLike) {
  const Table table =
      read("zip,id,y,x\n10,7,0,1\n2,8,1,2\n", {.target = "y", .categorical = {"zip"}, .ignore = {"id"}});
  EXPECT_THAT(table.targets, ElementsAre(2));
  // Integers sort as numbers: 2 before 10.
  EXPECT_THAT(table.columns[0].categories, ElementsAre("2", "10"));
  EXPECT_EQ(table.columns[1].kind, ColumnKind::kIgnored);
  EXPECT_TRUE(table.columns[1].values.empty());
  EXPECT_EQ(table.bytes_per_row(), 12U);
}

TEST(ReadTable, TwoColumnsOfOneNameAreRefusedUnlessTheyAreIgnored) {
  const auto error = refusal("a,b, a,y\n1,2,3,0\n4,5,6,1\n");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "t.csv:1");
  EXPECT_THAT(error->message(), HasSubstr("columns 1 and 3 are both called \"a\""));
  EXPECT_FALSE(refusal("a,b,a,y\n1,2,3,0\n4,5,6,1\n", {.ignore = {"a"}}));
  EXPECT_FALSE(refusal("1,1,0\n2,2,1\n", {.header = false}));
}

TEST(ReadTable, WithoutAHeaderColumnsAreNumbered) {
  const Table table = read("1,2,0\n3,4,1\n", {.header = false});
  EXPECT_EQ(table.columns[1].name, "1");
  EXPECT_EQ(table.rows, 2U);
}

TEST(ReadTable, IdsStandBesideTheFeaturesOfATableWithoutATarget) {
  BadSamples some({.on_bad_sample = OnBadSample::kSkip});
  const Table table =
      read("age, who ,colour\n1, p7,red\n2,cut\n3,p9 ,blue\n", {.id = "who", .unlabelled = true}, &some);
  EXPECT_THAT(table.ids, ElementsAre("p7", "p9"));
  EXPECT_TRUE(table.targets.empty());
  EXPECT_EQ(table.columns[1].kind, ColumnKind::kIgnored);
  EXPECT_THAT(table.columns[2].categories, ElementsAre("blue", "red"));
  const std::vector<std::uint64_t> rows{1, 0, 1};
  const Table taken = take_rows(table, rows);
  EXPECT_EQ(taken.rows, 3U);
  EXPECT_THAT(taken.ids, ElementsAre("p9", "p7", "p9"));
  EXPECT_THAT(taken.columns[0].values, ElementsAre(3, 1, 3));
  EXPECT_THAT(taken.columns[2].values, ElementsAre(0, 1, 0));
  EXPECT_THAT(taken.columns[2].categories, ElementsAre("blue", "red"));
  const auto both = refusal("a,y\n1,0\n2,1\n", {.target = "y", .id = "y"});
  ASSERT_TRUE(both);
  EXPECT_THAT(both->message(), HasSubstr("is the target and the rows' id"));
}

TEST(ReadTable, MissingNumbersAreNotANumberAndMissingCategoriesTheirOwn) {
  const Table table = read("a,b,y\n,red,0\n1,NA,1\nN/A,,0\n?,red,1\n");
  EXPECT_TRUE(std::isnan(table.columns[0].values[0]));
  EXPECT_EQ(table.columns[0].values[1], 1.0F);
  EXPECT_TRUE(std::isnan(table.columns[0].values[3]));
  EXPECT_THAT(table.columns[1].categories, ElementsAre("", "red"));
  EXPECT_THAT(table.columns[1].values, ElementsAre(1, 0, 0, 1));
}

TEST(ReadTable, ARegressionTargetIsANumber) {
  const Table table = read("x,price\n1,10.5\n2,12\n", {.regression = true});
  EXPECT_THAT(table.columns[1].values, ElementsAre(10.5F, 12.0F));
}

TEST(ReadTable, TheOrderOfCategoriesDoesNotDependOnTheOrderOfRows) {
  EXPECT_EQ(read("x,y\n1,b\n2,a\n3,c\n").columns[1].categories, read("x,y\n3,c\n1,b\n2,a\n").columns[1].categories);
}

TEST(ReadTable, BadRowsAreNamedWithFileAndLine) {
  struct Case {
    const char* text;
    const char* where;
    const char* message;
  };
  for (const Case& c :
       {Case{"a,b,y\n1,2,0\n1,0\n", "t.csv:3", "2 fields where 3"},
        Case{"a,b,y\n1,2,0\n1,2,3,4\n", "t.csv:3", "4 fields where 3"},
        Case{"a,y\n1,0\n\"\n\",0\nnan,1\n", "t.csv:3", "column \"a\""},
        Case{"a,y\n1,0\n2,\n3,1\n", "t.csv:3", "target"},
        Case{"a,y\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\nseven,1\n", "t.csv:13", "\"seven\""},
        Case{"a,y\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\n1,0\ninf,1\n", "t.csv:13", "\"inf\""}}) {
    TableOptions options;
    options.numeric = {"a"};
    const auto error = refusal(c.text, options);
    ASSERT_TRUE(error) << c.text;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
    EXPECT_EQ(error->where(), c.where) << error->what();
    EXPECT_THAT(error->message(), HasSubstr(c.message));
    EXPECT_THAT(error->remedy(), HasSubstr("on_bad_sample"));
  }
}

TEST(ReadTable, BadRowsCanBeSkippedUpToALimit) {
  const std::string text = "a,y\n1,0\n2\n3,1\nx,0\n4,0\n";
  TableOptions options;
  options.numeric = {"a"};
  BadSamples bad({.on_bad_sample = OnBadSample::kSkip, .limit = 2});
  const Table table = read(text, options, &bad);
  EXPECT_THAT(table.columns[0].values, ElementsAre(1, 3, 4));
  EXPECT_EQ(bad.count(), 2U);
  EXPECT_THAT(bad.examples(), ElementsAre(HasSubstr("t.csv:3"), HasSubstr("t.csv:5")));
  BadSamples strict({.on_bad_sample = OnBadSample::kSkip, .limit = 1});
  const auto error = error_of([&] { read(text, options, &strict); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("bad_sample_limit"));
  EXPECT_EQ(error->where(), "t.csv:5");
}

TEST(ReadTable, ATestTableHasTheCategoriesOfTheTrainingTable) {
  const Table train = read("c,x,y\nred,1,a\nblue,2,b\n");
  const Table test = read("c,x,y\ngreen,1,b\nred,2,a\n", {}, nullptr, &train);
  EXPECT_THAT(test.columns[0].values, ElementsAre(-1, 1));
  EXPECT_THAT(test.columns[2].values, ElementsAre(1, 0));
  EXPECT_THAT(error_of([&] { read("c,x,y\nred,1,z\n", {}, nullptr, &train); })->message(), HasSubstr("class \"z\""));
  EXPECT_EQ(error_of([&] { read("c,z,y\nred,1,a\n", {}, nullptr, &train); })->kind(), ErrorKind::kMismatch);
  EXPECT_EQ(error_of([&] { read("c,x\nred,1\n", {}, nullptr, &train); })->kind(), ErrorKind::kMismatch);
}

// Files that are written with a blank behind each comma say the same as those without.
TEST(ReadTable, BlanksAroundNamesAndCategoriesMeanNothing) {
  const Table table = read("work, age , class\n Private, 1 , <=50K\nPrivate\t,2,>50K\n  ?,3,<=50K \n",
                           {.target = " class", .categorical = {"work "}});
  EXPECT_EQ(table.columns[1].name, "age");
  EXPECT_THAT(table.columns[0].categories, ElementsAre("", "Private"));
  EXPECT_THAT(table.columns[0].values, ElementsAre(1, 1, 0));
  EXPECT_THAT(table.columns[2].categories, ElementsAre("<=50K", ">50K"));
  const Table other = read("class,work,age\n>50K , Private,5\n", {}, nullptr, &table);
  EXPECT_THAT(other.columns[0].values, ElementsAre(1));
}

// What training calls a column is found by that name, wherever it stands.
TEST(ReadTable, ColumnsOfATestTableAreFoundByTheirNames) {
  const Table train = read("c,x,n,y\nred,1,i,a\nblue,2,j,b\n", {.ignore = {"n"}});
  const Table test = read("y,more,x,c\nb,7,1,blue\na,8,2,red\n", {.ignore = {"n"}}, nullptr, &train);
  ASSERT_EQ(test.columns.size(), 4U);
  EXPECT_THAT(test.columns[0].values, ElementsAre(0, 1));
  EXPECT_THAT(test.columns[1].values, ElementsAre(1, 2));
  EXPECT_THAT(test.columns[3].values, ElementsAre(1, 0));
  EXPECT_THAT(test.extra_columns, ElementsAre("more"));
  const auto error = error_of([&] { read("y,x,colour\na,1,red\n", {}, nullptr, &train); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("has no column \"c\""));
}

TEST(ReadTable, CategoriesThatTrainingNeverSawAreCountedWithExamples) {
  const Table train = read("c,d,x,y\nred,u,1,a\nblue,v,2,b\n");
  const Table test = read("c,d,x,y\ngreen,u,1,b\nred,u,2,a\ngreen,v,1,b\n,u,1,a\n", {}, nullptr, &train);
  EXPECT_EQ(test.columns[0].unknown, 3U);
  EXPECT_THAT(test.columns[0].unknown_examples, ElementsAre("green", ""));
  EXPECT_EQ(test.columns[1].unknown, 0U);
  const std::vector<std::string> notes = notes_on(test);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], ::testing::AllOf(HasSubstr("3 of 4 rows"), HasSubstr("column \"c\""), HasSubstr("\"green\""),
                                         HasSubstr("t.csv")));
}

TEST(ReadTable, KnowsTheLineOfEveryRow) {
  BadSamples bad({.on_bad_sample = OnBadSample::kSkip});
  const Table table = read("a,y\n1,0\n\n2,1\n3\n\"4\",0\n\" \n5\",\"1\n\"\n6,0\n", {.numeric = {"a"}}, &bad);
  EXPECT_EQ(table.rows, 4U);
  EXPECT_EQ(table.line_of(0), 2U);
  EXPECT_EQ(table.line_of(1), 4U);
  EXPECT_EQ(table.line_of(2), 6U);
  EXPECT_EQ(table.line_of(3), 10U) << "behind a record of three lines, which is bad";
}

TEST(ReadTable, DecimalCommas) {
  TableOptions options{.delimiter = ';', .regression = true, .decimal = ','};
  const Table table = read("a;y\n1,5;-2,25e1\n3;4\n", options);
  EXPECT_THAT(table.columns[0].values, ElementsAre(1.5F, 3.0F));
  EXPECT_THAT(table.columns[1].values, ElementsAre(-22.5F, 4.0F));
  const auto error =
      error_of([&] { read("a;y\n1,5;1\n1.234,5;2\n", {.delimiter = ';', .numeric = {"a"}, .decimal = ','}); });
  ASSERT_TRUE(error) << "whether a point stands between thousands, nobody can know";
  EXPECT_THAT(error->message(), HasSubstr("1.234,5"));
}

TEST(ReadTable, DecimalCommasBetweenCommasStandInQuotes) {
  const TableOptions options{.regression = true, .decimal = ','};
  const Table table = read("a,y\n\"1,5\",2\n3,\"4,25\"\n", options);
  EXPECT_THAT(table.columns[0].values, ElementsAre(1.5F, 3.0F));
  EXPECT_THAT(table.columns[1].values, ElementsAre(2.0F, 4.25F));
  const auto error = refusal("a,y\n1,5,2\n3,4\n", options);
  ASSERT_TRUE(error);
  EXPECT_THAT(std::string(error->what()), HasSubstr("have to stand in quotes"));
}

TEST(ReadTable, SeveralTargetsAreNumbers) {
  TableOptions options{.regression = true, .targets = {"v", "u"}};
  const Table table = read("u,x,v\n1,2,3\n4,5,6\n", options);
  EXPECT_THAT(table.targets, ElementsAre(2, 0));
  options.regression = false;
  EXPECT_EQ(refusal("u,x,v\n1,2,3\n4,5,6\n", options)->kind(), ErrorKind::kInvalidInput);
}

TEST(ReadTable, ColumnsThatAreNotThereAreNamed) {
  const auto error = refusal("age,class\n1,a\n2,b\n", {.target = "clas"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  EXPECT_THAT(error->message(), HasSubstr("did you mean \"class\""));
  EXPECT_EQ(refusal("a,y\n1,2\n", {.ignore = {"b"}})->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(refusal("a,y\n1,2\n", {.ignore = {"y"}})->kind(), ErrorKind::kInvalidInput);
}

TEST(ReadTable, TablesThatTeachNothingAreRefused) {
  EXPECT_EQ(refusal("")->kind(), ErrorKind::kDamaged);
  EXPECT_EQ(refusal("a,y\n")->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(refusal("a,y\n1,same\n2,same\n")->message(), HasSubstr("nothing to learn"));
  std::string many = "a,y\n";
  for (int i = 0; i < 1001; ++i)
    many += "name" + std::to_string(i) + ",0\n";
  EXPECT_THAT(refusal(many)->message(), HasSubstr("column \"a\" has more than 1000"));
}

TEST(ReadTable, KindsAreChosenFromTheFirstRowsOfALongFile) {
  std::string text = "a,y\n";
  for (int i = 0; i < 6000; ++i)
    text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  const Table table = read(text);
  EXPECT_EQ(table.rows, 6000U);
  EXPECT_EQ(table.columns[0].values[5999], 5999.0F);
  const auto error = refusal(text + "word,1\n");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "t.csv:6002");
  EXPECT_THAT(error->remedy(), HasSubstr("data.categorical"));
}

}  // namespace
}  // namespace muster::data
