// Data for a trained model, read by the form of its training data alone: with targets and without.
#include "muster/data/open_alike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "npy_files.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OpenAlike : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) {
    testing::spill(folder_.path() / name, text);
    return folder_.path() / name;
  }
  static std::vector<float> features(const Dataset& dataset, std::uint64_t id) {
    std::vector<float> values(dataset.spec().elements());
    dataset.read(id, values);
    return values;
  }
  TemporaryFolder folder_;
};

TEST_F(OpenAlike, ATableIsReadByTheTrainingScaleAndItsCategories) {
  SourceOptions options;
  options.source = "csv";
  options.path = file("train.csv", "n,colour,class\n0,red,a\n2,blue,b\n4,red,b\n");
  options.test_path = options.path;
  const DataForm form = open_source(options).form;
  const Alike labelled = open_alike(options, form, file("new.csv", "n,colour,class\n2,green,b\n4,red,a\n"));
  EXPECT_TRUE(labelled.labelled);
  EXPECT_THAT(features(*labelled.samples, 0), ElementsAre(0, 0, 0)) << "green is no colour that was trained on";
  std::vector<float> room(3);
  EXPECT_EQ(labelled.samples->read(0, room), 1);
  const Alike bare = open_alike(options, form, file("bare.csv", "n,colour\n2,blue\n0,red\n"));
  EXPECT_FALSE(bare.labelled);
  EXPECT_EQ(bare.samples->size(), 2U);
  EXPECT_THAT(features(*bare.samples, 0), ElementsAre(0, 1, 0));
  EXPECT_EQ(bare.name(1), "bare.csv:1");
  try {
    open_alike(options, form, file("other.csv", "n,shape\n2,blue\n"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("column 2 is \"shape\" and in the training table \"colour\""));
  }
}

TEST_F(OpenAlike, ATableWithoutAHeaderMayLackItsTarget) {
  SourceOptions options;
  options.source = "csv";
  options.table.header = false;
  options.path = file("train.csv", "0,1,a\n2,1,b\n");
  options.test_path = options.path;
  const DataForm form = open_source(options).form;
  EXPECT_TRUE(open_alike(options, form, options.path).labelled);
  EXPECT_FALSE(open_alike(options, form, file("bare.csv", "0,1\n")).labelled);
}

TEST_F(OpenAlike, ArraysNeedNoTargets) {
  SourceOptions options;
  options.source = "numpy";
  options.path = folder_.path() / "train";
  options.table.regression = true;
  std::filesystem::create_directories(options.path);
  folder_.write("train/x_train.npy", npy<float>("<f4", "(2, 1)", {1, 3}));
  folder_.write("train/y_train.npy", npy<float>("<f4", "(2,)", {10, 30}));
  folder_.write("train/x_test.npy", npy<float>("<f4", "(1, 1)", {2}));
  folder_.write("train/y_test.npy", npy<float>("<f4", "(1,)", {20}));
  const DataForm form = open_source(options).form;
  folder_.write("x.npy", npy<float>("<f4", "(3, 1)", {2, 3, 4}));
  const Alike bare = open_alike(options, form, folder_.path() / "x.npy");
  EXPECT_FALSE(bare.labelled);
  float feature = 0;
  float value = 0;
  bare.samples->read_sample(2, {.features = std::span(&feature, 1), .values = std::span(&value, 1)});
  EXPECT_EQ(feature, 2) << "(4 - 2) / 1";
  const Alike labelled = open_alike(options, form, options.path);
  EXPECT_TRUE(labelled.labelled);
  labelled.samples->read_sample(0, {.features = std::span(&feature, 1), .values = std::span(&value, 1)});
  EXPECT_EQ(value, 0) << "(20 - 20) / 10";
}

TEST_F(OpenAlike, SamplesOfAnotherShapeAreRefusedWithBoth) {
  SourceOptions options;
  options.source = "numpy";
  options.path = folder_.path();
  folder_.write("x.npy", npy<float>("<f4", "(4, 2)", {1, 2, 3, 4, 5, 6, 7, 8}));
  folder_.write("y.npy", npy<std::int64_t>("<i8", "(4,)", {0, 1, 0, 1}));
  const DataForm form = open_source(options).form;
  folder_.write("wide.npy", npy<float>("<f4", "(1, 3)", {1, 2, 3}));
  EXPECT_THROW(open_alike(options, form, folder_.path() / "wide.npy"), Error);
  EXPECT_THROW(open_alike(options, form, folder_.path() / "none.npy"), Error);
}

TEST_F(OpenAlike, TextAndComputedDataAreNotReadAlike) {
  SourceOptions options;
  options.source = "synthetic";
  const DataForm form = open_source(options).form;
  EXPECT_THAT([&] { open_alike(options, form, folder_.path()); },
              ::testing::ThrowsMessage<Error>(HasSubstr("cannot be given other files")));
}

}  // namespace
}  // namespace muster::data
