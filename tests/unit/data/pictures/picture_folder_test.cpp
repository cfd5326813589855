// Order, labels, windows and damage of pictures in folders of classes.
#include "muster/data/pictures/picture_folder.h"

#include <thread>

#include "support.h"
#include "support/picture_files.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::muster::testing::make_pixels;
using ::muster::testing::to_jpeg;
using ::muster::testing::to_png;

const Normalization kUnit{.mean = {0, 0, 0}, .stddev = {1, 1, 1}};

// Classes "b" (2 pictures) and "a" (3), of several sizes.
class PictureFolderTest : public ::testing::Test {
 protected:
  PictureFolderTest() {
    fs::create_directories(folder.path() / "b");
    fs::create_directories(folder.path() / "a");
    folder.write("b/2.png", to_png(30, 20, make_pixels(30, 20, 3, 1).values));
    folder.write("b/10.JPG", to_jpeg(make_pixels(40, 50, 3, 2)));
    folder.write("a/x.jpeg", to_jpeg(make_pixels(64, 64, 1, 3)));
    folder.write("a/Z.jpg", to_jpeg(make_pixels(33, 99, 3, 4)));
    folder.write("a/y.jpg", to_jpeg(make_pixels(200, 120, 3, 5)));
    folder.write("a/notes.txt", to_bytes({1}));
    folder.write("a/.hidden.jpg", to_bytes({1}));
    folder.write("README", to_bytes({1}));
  }

  PictureFolder open(const PictureOptions& options = {.extent = {16, 12}}) const {
    return PictureFolder(PictureList(folder.path()), options, kUnit);
  }

  TemporaryFolder folder;
};

TEST_F(PictureFolderTest, SamplesAreSortedByClassAndName) {
  const PictureList list(folder.path());
  EXPECT_EQ(list.class_names(), (std::vector<std::string>{"a", "b"}));
  std::vector<std::string> names;
  std::vector<std::int64_t> labels;
  for (std::uint64_t id = 0; id < list.size(); ++id) {
    names.push_back(list.path(id).filename());
    labels.push_back(list.label(id));
    EXPECT_TRUE(fs::exists(list.path(id)));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"Z.jpg", "x.jpeg", "y.jpg", "10.JPG", "2.png"}));
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 0, 0, 1, 1}));
}

TEST_F(PictureFolderTest, SamplesHaveOneShapeAndTheLabelOfTheirFolder) {
  const PictureFolder pictures = open();
  EXPECT_EQ(pictures.size(), 5U);
  EXPECT_EQ(pictures.spec().shape, (std::vector<std::int64_t>{3, 12, 16}));
  EXPECT_EQ(pictures.spec().classes, 2);
  std::vector<float> features(pictures.spec().elements());
  for (std::uint64_t id = 0; id < 5; ++id) {
    EXPECT_EQ(pictures.read(id, features), id < 3 ? 0 : 1);
    for (const float value : features)
      ASSERT_TRUE(value >= -0.001F && value <= 1.001F) << value;
  }
}

TEST_F(PictureFolderTest, RandomWindowsAreThoseOfTheSampleAndTheEpochInEveryThread) {
  const PictureFolder pictures = open({.extent = {16, 12}, .random_window = RandomWindow{}, .seed = 3});
  const auto read = [&](std::uint64_t id, std::uint64_t epoch) {
    std::vector<float> features(pictures.spec().elements());
    pictures.read_in_epoch(id, epoch, features);
    return features;
  };
  std::vector<std::vector<float>> forwards;
  for (std::uint64_t id = 0; id < 5; ++id)
    forwards.push_back(read(id, 1));
  EXPECT_NE(forwards[0], read(0, 2));
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> seen(5);
  for (std::uint64_t id = 5; id-- > 0;)
    threads.emplace_back([&, id] { seen[id] = read(id, 1); });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(seen, forwards);
  std::vector<float> middle(pictures.spec().elements());
  pictures.read(0, middle);
  EXPECT_NE(middle, forwards[0]) << "evaluation takes the middle";
}

TEST_F(PictureFolderTest, LinksToPicturesAndClassesAreFollowed) {
  fs::create_symlink(folder.path() / "b" / "2.png", folder.path() / "a" / "link.png");
  fs::create_directory_symlink(folder.path() / "b", folder.path() / "c");
  fs::create_directory_symlink("..", folder.path() / "b" / ".up");
  const PictureList list(folder.path());
  EXPECT_EQ(list.class_names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(list.size(), 8U);
}

TEST_F(PictureFolderTest, WhatCannotBeAFolderOfPicturesIsRefusedByName) {
  const auto complaint = [&] {
    const auto error = error_of([&] { PictureList list(folder.path()); });
    return error ? std::string(error->what()) : std::string();
  };
  EXPECT_EQ(complaint(), "");
  fs::create_directories(folder.path() / "empty");
  EXPECT_NE(complaint().find("the class \"empty\" has no pictures"), std::string::npos) << complaint();
  fs::remove(folder.path() / "empty");
  fs::create_directories(folder.path() / "a" / "deeper");
  EXPECT_NE(complaint().find("a/deeper"), std::string::npos) << complaint();
  fs::remove(folder.path() / "a" / "deeper");
  fs::create_symlink("nowhere.jpg", folder.path() / "a" / "dangling.jpg");
  EXPECT_NE(complaint().find("dangling.jpg"), std::string::npos) << complaint();
  const auto missing = error_of([&] { PictureList list(folder.path() / "missing"); });
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->kind(), ErrorKind::kNotFound);
  const auto flat = error_of([&] { PictureList list(folder.path() / "b"); });
  ASSERT_TRUE(flat) << "pictures without folders of classes";
  EXPECT_EQ(flat->kind(), ErrorKind::kInvalidInput);
}

TEST_F(PictureFolderTest, ADamagedPictureIsNamedWhenItIsRead) {
  folder.write("a/Z.jpg", to_bytes({0xFF, 0xD8, 0xFF, 0xE0, 1, 2, 3}));
  const PictureFolder pictures = open();
  std::vector<float> features(pictures.spec().elements());
  const auto error = error_of([&] { pictures.read(0, features); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_EQ(error->where(), (folder.path() / "a" / "Z.jpg").string());
  EXPECT_EQ(pictures.read(1, features), 0) << "the others can be read";
}

TEST_F(PictureFolderTest, TheStatisticsAreThoseOfThePixels) {
  for (const char* name : {"a/x.jpeg", "a/Z.jpg", "a/y.jpg", "b/10.JPG"})
    fs::remove(folder.path() / name);
  // Half of the pixels 51 (0.2), half 153 (0.6): mean 0.4, deviation 0.2.
  const std::vector<std::uint8_t> halves{51, 51, 51, 153, 153, 153};
  folder.write("a/1.png", to_png(2, 1, halves));
  folder.write("b/2.png", to_png(2, 1, halves));
  folder.write("b/damaged.png", to_bytes({0x89, 'P', 'N', 'G'}));
  const std::vector<std::uint64_t> ids{0, 1, 2};
  const Normalization measured = measure_pictures(PictureList(folder.path()), {.extent = {2, 1}}, ids);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(measured.mean[static_cast<unsigned>(c)], 0.4, 1e-5);
    EXPECT_NEAR(measured.stddev[static_cast<unsigned>(c)], 0.2, 1e-5);
  }
}

TEST_F(PictureFolderTest, OptionsThatCannotBeAreRefused) {
  EXPECT_TRUE(error_of([&] { open({.channels = 2}); }));
  EXPECT_TRUE(error_of([&] { open({.extent = {0, 5}}); }));
  EXPECT_TRUE(error_of([&] { open({.random_window = RandomWindow{.least_area = 0}}); }));
}

}  // namespace
}  // namespace muster::data
