// Folders as people lay them out, and the sets that come of each.
#include <gmock/gmock.h>

#include "muster/data/inspect.h"
#include "muster/data/picture_parts.h"
#include "support.h"
#include "support/picture_files.h"

namespace muster::data {
namespace {

class PictureSourceTest : public ::testing::Test {
 protected:
  void add(const std::string& part, int each) {
    for (const char* name : {"cat", "dog"}) {
      std::filesystem::create_directories(folder.path() / part / name);
      for (int i = 0; i < each; ++i) {
        const auto pixels = ::muster::testing::make_pixels(20, 30, 3, static_cast<unsigned>(seed_++));
        folder.write(part + "/" + name + "/" + std::to_string(i) + ".jpg", ::muster::testing::to_jpeg(pixels));
      }
    }
  }
  SourceOptions options() const { return {.source = "pictures", .path = folder.path(), .shape = {3, 8, 8}}; }

  TemporaryFolder folder;
  int seed_ = 0;
};

TEST_F(PictureSourceTest, TrainAndTestFoldersAreTheTwoSets) {
  add("train", 4);
  add("val", 2);
  const Data data = open_source(options());
  EXPECT_EQ(data.train->size(), 8U);
  EXPECT_EQ(data.test->size(), 4U);
  EXPECT_EQ(data.train->spec().classes, 2);
  EXPECT_EQ(data.normalization.mean.size(), 3U);
}

TEST_F(PictureSourceTest, AValidationFolderBesideATestFolderIsTheValidationSet) {
  add("train", 4);
  add("val", 2);
  add("test", 3);
  SourceOptions asked = options();
  asked.validation = 0.5;
  const Data data = open_source(asked);
  EXPECT_EQ(data.train->size(), 8U) << "a set of its own counts more than a part";
  EXPECT_EQ(data.test->size(), 6U);
  ASSERT_TRUE(data.validation);
  EXPECT_EQ(data.validation->size(), 4U);
}

TEST_F(PictureSourceTest, TheOtherSetsMayBeAnywhere) {
  add("here", 4);
  add("there", 2);
  add("elsewhere", 3);
  SourceOptions asked = options();
  asked.path = folder.path() / "here";
  asked.test_path = folder.path() / "there";
  asked.validation_path = folder.path() / "elsewhere";
  const Data data = open_source(asked);
  EXPECT_EQ(data.train->size(), 8U);
  EXPECT_EQ(data.test->size(), 4U);
  EXPECT_EQ(data.validation->size(), 6U);
}

TEST_F(PictureSourceTest, InspectionChoosesAShapeByThePicturesThatAreThere) {
  add(".", 3);
  EXPECT_EQ(inspect(folder.path()).options.shape, (std::vector<std::int64_t>{3, 32, 32})) << "20 x 30 pixels";
  folder.write("cat/large.jpg", ::muster::testing::to_jpeg(::muster::testing::make_pixels(600, 500, 3, 1)));
  EXPECT_EQ(inspect(folder.path()).options.shape, (std::vector<std::int64_t>{3, 32, 32})) << "one is not the rule";
  for (int i = 0; i < 9; ++i)
    folder.write("dog/medium" + std::to_string(i) + ".jpg",
                 ::muster::testing::to_jpeg(::muster::testing::make_pixels(90, 70, 3, 1)));
  EXPECT_EQ(inspect(folder.path()).options.shape, (std::vector<std::int64_t>{3, 80, 80}));
}

TEST_F(PictureSourceTest, WithoutATestFolderATenthIsHeldOut) {
  add(".", 10);
  const Data data = open_source(options());
  EXPECT_EQ(data.train->size(), 18U);
  EXPECT_EQ(data.test->size(), 2U);
}

TEST_F(PictureSourceTest, TrainingIsAugmentedAndEvaluationIsNot) {
  add(".", 10);
  SourceOptions random = options();
  random.augment = {"random-resized-crop:0.2", "flip"};
  const Data data = open_source(random);
  std::vector<float> a(3 * 8 * 8);
  std::vector<float> b(a.size());
  data.train->read_in_epoch(1, 0, a);
  data.train->read_in_epoch(1, 1, b);
  EXPECT_NE(a, b);
  data.train->read(1, a);
  data.train->read(1, b);
  EXPECT_EQ(a, b);
}

TEST_F(PictureSourceTest, OtherPicturesAreReadAlikeInFoldersOfClassesOrAsTheyLie) {
  add(".", 4);
  const DataForm form = open_source(options()).form;
  EXPECT_TRUE(open_alike(options(), form, folder.path()).labelled);
  const Alike flat = open_alike(options(), form, folder.path() / "dog");
  EXPECT_FALSE(flat.labelled);
  EXPECT_EQ(flat.samples->size(), 4U);
  EXPECT_THAT(flat.name(2), ::testing::EndsWith("dog/2.jpg"));
  const Alike one = open_alike(options(), form, folder.path() / "dog" / "2.jpg");
  EXPECT_EQ(one.samples->size(), 1U);
  std::vector<float> a(3 * 8 * 8);
  std::vector<float> b(a.size());
  flat.samples->read(2, a);
  one.samples->read(0, b);
  EXPECT_EQ(a, b);
  EXPECT_EQ(error_of([&] { open_alike(options(), form, folder.path() / "dog" / "none.jpg"); })->kind(),
            ErrorKind::kNotFound);
  std::filesystem::create_directories(folder.path() / "bird");
  folder.write("bird/0.jpg", ::muster::testing::to_jpeg(::muster::testing::make_pixels(20, 30, 3, 1)));
  EXPECT_EQ(error_of([&] { open_alike(options(), form, folder.path()); })->kind(), ErrorKind::kMismatch);
}

TEST_F(PictureSourceTest, WhatCannotBeIsRefused) {
  EXPECT_EQ(error_of([&] { open_source({.source = "pictures"}); })->kind(), ErrorKind::kInvalidInput);
  add("train", 1);
  add("test", 1);
  EXPECT_FALSE(error_of([&] { open_source(options()); }));
  SourceOptions flat = options();
  flat.shape = {8};
  EXPECT_EQ(error_of([&] { open_source(flat); })->kind(), ErrorKind::kInvalidInput);
  std::filesystem::remove_all(folder.path() / "test" / "cat");
  const auto mismatch = error_of([&] { open_source(options()); });
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mismatch->kind(), ErrorKind::kMismatch);
  EXPECT_NE(mismatch->message().find("cat"), std::string::npos);
  SourceOptions other{.source = "synthetic", .augment = {"random-resized-crop"}};
  EXPECT_EQ(error_of([&] { open_source(other); })->kind(), ErrorKind::kInvalidInput);
}

}  // namespace
}  // namespace muster::data
