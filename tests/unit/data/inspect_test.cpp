// Files as users bring them, and what is found out about each.
#include "muster/data/inspect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "npy_files.h"
#include "support/bmp_file.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;

class Inspect : public ::testing::Test {
 protected:
  SourceOptions look(const std::string& name, const std::string& text) {
    testing::spill(folder_.path() / name, text);
    return inspect(folder_.path() / name).options;
  }
  TemporaryFolder folder_;
};

TEST_F(Inspect, FindsDelimiterHeaderTargetAndTaskOfATable) {
  SourceOptions options = look("a.csv", "id,width,species\n1,2.5,cat\n2,3.5,dog\n");
  EXPECT_EQ(options.source, "csv");
  EXPECT_TRUE(options.table.header);
  EXPECT_EQ(options.table.target, "species");
  EXPECT_FALSE(options.table.regression);
  EXPECT_THAT(options.table.ignore, ElementsAre("id"));
  options = look("b.tsv", "1\t2.5\t0\n2\t3.5\t1\n");
  EXPECT_EQ(options.table.delimiter, '\t');
  EXPECT_FALSE(options.table.header);
  EXPECT_EQ(options.table.target, "2");
  std::string prices = "price;rooms\n";
  for (int i = 0; i < 50; ++i)
    prices += std::to_string(i) + ".5;" + std::to_string(i % 5) + "\n";
  options = look("c.csv", prices);
  EXPECT_EQ(options.table.delimiter, ';');
  EXPECT_EQ(options.table.target, "price");
  EXPECT_TRUE(options.table.regression);
}

TEST_F(Inspect, WordsCannotBeWishedToBeNumbers) {
  testing::spill(folder_.path() / "a.csv", "width,color\n1,red\n2,blue\n");
  EXPECT_THAT([&] { inspect(folder_.path() / "a.csv", {.targets = {"color"}, .task = "regression"}); },
              ::testing::ThrowsMessage<Error>(
                  ::testing::AllOf(::testing::HasSubstr("\"color\" is no number"), ::testing::HasSubstr("--task"))));
}

TEST_F(Inspect, AListOfPicturesPointsToTheirFolder) {
  const std::string list = "image,kind\na.jpg,cat\nb.jpg,dog\nc.jpg,cat\n";
  EXPECT_THAT([&] { look("labels.csv", list); },
              ::testing::ThrowsMessage<Error>(
                  ::testing::AllOf(::testing::HasSubstr("\"image\" names pictures"),
                                   ::testing::HasSubstr("muster init " + folder_.path().string() + "."))));
  EXPECT_EQ(inspect(folder_.path() / "labels.csv", {.ignore = {"image"}}).options.source, "csv");
}

TEST_F(Inspect, KnowsTextFromTables) {
  EXPECT_EQ(look("poem.txt", "Roses are red,\nviolets are blue,\n").source, "text");
  EXPECT_EQ(look("poem", "Roses are red,\nviolets are blue.\nAnd so, on, and on.\n").source, "text");
}

TEST_F(Inspect, ATableOfItsHeaderAloneIsCalledThat) {
  for (const char* text : {"a,b,c\n", "a,b,c", "a,b,c\r\n\r\n"}) {
    const auto error = error_of([&] { look("head.csv", text); });
    ASSERT_TRUE(error) << text;
    EXPECT_THAT(error->what(), ::testing::HasSubstr("has one line alone")) << text;
  }
}

// A file that is called a table is never taken for text behind the user's back.
TEST_F(Inspect, ATableWhoseFirstLineIsNoneIsNamedWithTheLine) {
  const std::string rows =
      "5.1,3.5,1.4,0.2,0\n4.9,3,1.4,0.2,1\n4.7,3.2,1.3,0.2,1\n4.8,3.1,1.3,0.2,1\n"
      "5.1,3.5,1.4,0.2,0\n4.9,3,1.4,0.2,1\n4.7,3.2,1.3,0.2,1\n4.8,3.1,1.3,0.2,1\n"
      "5,3.6,1.4,0.2,0\n5.4,3.9,1.7,0.4,1\n";
  const auto error = error_of([&] { look("iris.csv", "150,4,setosa\n" + rows); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), ::testing::AllOf(::testing::HasSubstr("iris.csv:1"), ::testing::HasSubstr("has 3 fields"),
                                              ::testing::HasSubstr("have 5")));
  EXPECT_EQ(look("iris.csv", rows).source, "csv");
}

TEST_F(Inspect, ColumnsOfATableMayBeSeparatedBySpacesAndOneColumnIsNoTable) {
  const SourceOptions options = look("a.csv", "59 2 32.1\n48 1 21.6\n72 2 30.5\n");
  EXPECT_EQ(options.source, "csv");
  EXPECT_EQ(options.table.delimiter, ' ');
  EXPECT_THAT(error_of([&] { look("y.csv", "1.5\n2.5\n"); })->what(), ::testing::HasSubstr("has no columns"));
}

// What dead ends of init were made of: a source could have read each of these files, had it been told how.
TEST_F(Inspect, ColumnsWithTooManyValuesAreLeftOutAndSaid) {
  std::string table = "name,colour,remark,n,class\n";
  for (int i = 0; i < 5000; ++i)
    table += "n" + std::to_string(i % 1200) + ",c" + std::to_string(i % 900) + ",word " + std::to_string(i) + "," +
             std::to_string(i) + "," + (i % 2 == 0 ? "a" : "b") + "\n";
  testing::spill(folder_.path() / "t.csv", table);
  const Finding finding = inspect(folder_.path() / "t.csv");
  EXPECT_THAT(finding.options.table.ignore, ElementsAre("name", "remark"));
  EXPECT_THAT(finding.reasons, ::testing::Contains(::testing::HasSubstr("\"name\"")));
  SourceOptions options = finding.options;
  EXPECT_EQ(open_source(options).train->spec().elements(), 901U) << "and so it can be read";
}

TEST_F(Inspect, TextThatNeverComesAgainIsNothingToPredict) {
  std::string table = "width,kind,comment\n";
  for (int i = 0; i < 60; ++i)
    table += std::to_string(i) + "," + (i % 3 == 0 ? "a" : "b") + ",it is number " + std::to_string(i) + "\n";
  const SourceOptions options = look("t.csv", table);
  EXPECT_EQ(options.table.target, "kind");
  EXPECT_THAT(options.table.ignore, ElementsAre("comment"));
}

TEST_F(Inspect, DecimalCommasAndLatin1) {
  std::string table =
      "Gr\xF6\xDF"
      "e;Preis;Ort\n";
  for (int i = 0; i < 30; ++i)
    table += std::to_string(i) + ",5;" + std::to_string(3 * i) + ",25;K\xF6ln\n";
  testing::spill(folder_.path() / "t.csv", table);
  const Finding finding = inspect(folder_.path() / "t.csv", {.targets = {"Preis"}});
  EXPECT_EQ(finding.options.table.delimiter, ';');
  EXPECT_EQ(finding.options.table.decimal, ',');
  EXPECT_TRUE(finding.options.table.latin1);
  EXPECT_TRUE(finding.options.table.regression);
  const Data data = open_source(finding.options);
  EXPECT_EQ(data.form.columns.columns[0].name,
            "Gr\xC3\xB6\xC3\x9F"
            "e");
  EXPECT_THAT(data.form.columns.columns[2].categories, ElementsAre("K\xC3\xB6ln"));
  EXPECT_EQ(look("poem.txt",
                 "S\xFC\xDF"
                 "e Worte,\nsch\xF6n gereimt\x85\n")
                .text.latin1,
            true);
}

TEST_F(Inspect, DecimalCommasInQuotesBetweenCommas) {
  std::string table = "a,b,target\n";
  for (int i = 0; i < 30; ++i)
    table += fmt::format("\"{0},5\",{0},\"0,{1}\"\n", i, 100 + i);
  const SourceOptions options = look("t.csv", table);
  EXPECT_EQ(options.table.delimiter, ',');
  EXPECT_EQ(options.table.decimal, ',');
  EXPECT_TRUE(options.table.regression);
  const Data data = open_source(options);
  EXPECT_EQ(data.form.columns.columns[0].kind, ColumnKind::kNumeric);
  EXPECT_EQ(data.bad_samples->count(), 0U);
  // Three digits behind every comma may be thousands.
  EXPECT_EQ(look("u.csv", "a,y\n\"1,500\",red\n\"12,250\",blue\n\"950\",red\n").table.decimal, '.');
}

TEST_F(Inspect, CommasInTextAreNoDecimals) {
  const SourceOptions options = look("t.csv", "a;b\nred, green;1\nblue;2\n");
  EXPECT_EQ(options.table.delimiter, ';');
  EXPECT_EQ(options.table.decimal, '.');
}

TEST_F(Inspect, NumbersOfRowsWithoutANameAreLeftOut) {
  const SourceOptions options = look("t.csv", ",width,species\n0,2.5,cat\n1,3.5,dog\n");
  EXPECT_TRUE(options.table.header);
  EXPECT_THAT(options.table.ignore, ElementsAre(""));
  EXPECT_FALSE(look("u.csv", "red,?,a\nblue,2,b\n").table.header);
}

TEST_F(Inspect, BlanksBehindDelimitersAreNoPartOfNames) {
  const SourceOptions options = look("t.csv", "id, width, species\n1, 2.5, cat\n2, 3.5, dog\n");
  EXPECT_EQ(options.table.target, "species");
  EXPECT_THAT(options.table.ignore, ElementsAre("id"));
}

TEST_F(Inspect, TheUserKnowsBetter) {
  std::string table = "a,b,c\n";
  for (int i = 0; i < 50; ++i)
    table += std::to_string(i) + "," + std::to_string(i % 2) + "," + std::to_string(2 * i) + "\n";
  testing::spill(folder_.path() / "t.csv", table);
  const auto with = [&](const InspectOptions& wishes) {
    return inspect(folder_.path() / "t.csv", wishes).options.table;
  };
  EXPECT_TRUE(with({}).regression);
  EXPECT_FALSE(with({.task = "classification"}).regression);
  EXPECT_EQ(with({.targets = {"b"}}).target, "b");
  EXPECT_FALSE(with({.targets = {"b"}}).regression);
  EXPECT_EQ(with({.ignore = {"c"}}).target, "b") << "what is left out is nothing to predict";
  EXPECT_THAT(with({.targets = {"a", "c"}}).targets, ElementsAre("a", "c"));
  EXPECT_EQ(error_of([&] { with({.shape = {3, 8, 8}}); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { with({.task = "language"}).delimiter; })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] {
              look("poem.txt", "a\n");
              inspect(folder_.path() / "poem.txt", {.targets = {"x"}});
            })->kind(),
            ErrorKind::kInvalidInput);
}

TEST_F(Inspect, TargetsOfArraysSayWhatIsToBeLearned) {
  const auto write = [&](const Bytes& y) {
    folder_.write("a.npz", zip({{"x.npy", npy<float>("<f4", "(4, 1)", {1, 2, 3, 4})}, {"y.npy", y}}, false));
    const Finding finding = inspect(folder_.path() / "a.npz");
    EXPECT_EQ(finding.options.source, "numpy");
    open_source(finding.options);  // no dead end
    return finding.options.table.regression;
  };
  EXPECT_TRUE(write(npy<float>("<f4", "(4,)", {1.5, 2, 3, 4})));
  EXPECT_FALSE(write(npy<float>("<f4", "(4,)", {1, 0, 1, 0}))) << "whole numbers";
  EXPECT_FALSE(write(npy<std::int64_t>("<i8", "(4,)", {1, 0, 1, 0})));
  EXPECT_TRUE(write(npy<float>("<f4", "(4, 2)", {1, 0, 1, 0, 1, 0, 1, 0})));
}

TEST_F(Inspect, KnowsFoldersByTheirFiles) {
  for (const auto& [file, source] :
       std::vector<std::pair<std::string, std::string>>{{"train-images-idx3-ubyte.gz", "idx"},
                                                        {"data_batch_1.bin", "cifar10"},
                                                        {"train-00000-of-00001.pack", "packed"},
                                                        {"a.txt.gz", "text"},
                                                        {"cats/1.JPG", "pictures"},
                                                        {"train/cats/1.png", "pictures"}}) {
    const TemporaryFolder folder;
    std::filesystem::create_directories((folder.path() / file).parent_path());
    testing::spill(folder.path() / file, "x");
    EXPECT_EQ(inspect(folder.path()).options.source, source);
  }
}

TEST_F(Inspect, PicturesGetAShapeByTheirSize) {
  for (const auto& [side, wanted] :
       std::vector<std::pair<std::uint32_t, std::int64_t>>{{28, 32}, {88, 96}, {300, 224}}) {
    const TemporaryFolder folder;
    testing::spill_bmp(folder.path() / "cat/1.bmp", 40, side);
    testing::spill_bmp(folder.path() / "dog/1.bmp", 200, side);
    EXPECT_EQ(inspect(folder.path()).options.shape, (std::vector<std::int64_t>{3, wanted, wanted}));
  }
}

TEST_F(Inspect, AWordAboutPicturesMakesNoTextOfThem) {
  for (const char* name : {"cat/1.jpg", "cat/2.bmp", "dog/1.webp"}) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    testing::spill(folder_.path() / name, "x");
  }
  testing::spill(folder_.path() / "README.txt", "Cats and dogs.\n");
  EXPECT_EQ(inspect(folder_.path()).options.source, "pictures");
  testing::spill(folder_.path() / "counts.csv", "kind,count\ncat,2\ndog,1\n");
  EXPECT_EQ(inspect(folder_.path()).options.source, "pictures");
}

TEST_F(Inspect, PicturesWithATableOfTheirNames) {
  for (const char* name : {"1.jpg", "2.jpg", "3.jpg"})
    testing::spill(folder_.path() / name, "x");
  EXPECT_THAT(error_of([&] { inspect(folder_.path()); })->what(), ::testing::HasSubstr("CSV file"));
  testing::spill(folder_.path() / "all.csv", "n;picture;kind;by\n1;1.jpg;cat;me\n2;2;dog;me\n3;3.jpg;cat;me\n");
  const SourceOptions options = inspect(folder_.path(), {.targets = {"kind"}, .shape = {1, 9, 9}}).options;
  EXPECT_EQ(options.source, "pictures");
  EXPECT_EQ(options.labels.file, folder_.path() / "all.csv");
  EXPECT_EQ(options.labels.file_column, "picture");
  EXPECT_EQ(options.table.target, "kind");
  EXPECT_EQ(options.table.delimiter, ';');
  EXPECT_THAT(options.shape, ElementsAre(1, 9, 9));
}

TEST_F(Inspect, WhatNoSourceReadsIsRefused) {
  EXPECT_EQ(error_of([&] { look("a.bin", std::string("\0\1\2\xFF", 4)); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { look("empty.csv", ""); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { inspect(folder_.path() / "none"); })->kind(), ErrorKind::kNotFound);
  const TemporaryFolder nothing;
  EXPECT_EQ(error_of([&] { inspect(nothing.path()); })->kind(), ErrorKind::kInvalidInput);
}

}  // namespace
}  // namespace muster::data
