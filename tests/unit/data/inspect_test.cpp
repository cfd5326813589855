#include "muster/data/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "npy_files.h"

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

TEST_F(Inspect, KnowsTextFromTables) {
  EXPECT_EQ(look("poem.txt", "Roses are red,\nviolets are blue,\n").source, "text");
  EXPECT_EQ(look("poem", "Roses are red,\nviolets are blue.\nAnd so, on, and on.\n").source, "text");
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

TEST_F(Inspect, KnowsArchivesOfArrays) {
  folder_.write("a.npz", zip({{"x.npy", npy<float>("<f4", "(1,)", {1})}}, false));
  EXPECT_EQ(inspect(folder_.path() / "a.npz").options.source, "numpy");
}

TEST_F(Inspect, KnowsFoldersByTheirFiles) {
  for (const auto& [file, source] :
       std::vector<std::pair<std::string, std::string>>{{"train-images-idx3-ubyte.gz", "idx"},
                                                        {"data_batch_1.bin", "cifar10"},
                                                        {"x_train.npy", "numpy"},
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

TEST_F(Inspect, WhatNoSourceReadsIsRefused) {
  EXPECT_EQ(error_of([&] { look("a.bin", std::string("\0\1\2\xFF", 4)); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { look("empty.csv", ""); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of([&] { inspect(folder_.path() / "none"); })->kind(), ErrorKind::kNotFound);
  const TemporaryFolder nothing;
  EXPECT_EQ(error_of([&] { inspect(nothing.path()); })->kind(), ErrorKind::kInvalidInput);
}

}  // namespace
}  // namespace muster::data
