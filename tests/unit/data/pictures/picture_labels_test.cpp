// A CSV file of labels beside a folder of pictures, with rows that cannot be used.
#include "muster/data/pictures/picture_labels.h"

#include <gmock/gmock.h>

#include <tuple>

#include "muster/data/open_alike.h"
#include "other_formats.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PictureLabels : public ::testing::Test {
 protected:
  PictureLabels() {
    fs::create_directories(folder_.path() / "pictures/more");
    for (const char* name : {"a.png", "b.png", "more/c.png", "d.png"})
      folder_.write(std::string("pictures/") + name, testing::to_png(9, 9, testing::make_pixels(9, 9, 3, 1).values));
    folder_.write("pictures/e.bmp", to_bmp(1, 1, {{1, 2, 3}}));
  }
  PictureList read(const std::string& text, const std::vector<std::string>& classes = {}) {
    testing::spill(folder_ / "labels.csv", text);
    BadSamples bad(options_.bad_samples);
    return read_picture_labels(folder_ / "labels.csv", folder_ / "pictures", options_, bad, classes);
  }
  TemporaryFolder folder_;
  SourceOptions options_{.source = "pictures", .shape = {3, 8, 8}};
};

TEST_F(PictureLabels, GivePicturesTheirClasses) {
  const PictureList list = read("file,by,kind\nb.png,x, dog\nmore/c,x,cat\n e ,y,dog\n");
  EXPECT_THAT(list.class_names(), ElementsAre("cat", "dog"));
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list.path(0), folder_ / "pictures/b.png");
  EXPECT_EQ(list.path(1), folder_ / "pictures/more/c.png") << "the ending is found";
  EXPECT_EQ(list.path(2), folder_ / "pictures/e.bmp");
  EXPECT_EQ(list.label(0), 1);
  EXPECT_EQ(list.label(1), 0);
  options_.labels.file_column = "name";
  options_.table.target = "kind";
  EXPECT_EQ(read("kind,name\n10,a.png\n9,b.png\n").class_names(), (std::vector<std::string>{"9", "10"}));
}

TEST_F(PictureLabels, WhatCannotBeUsedIsNamedWithItsLine) {
  for (const auto& [rows, where, what] :
       {std::tuple("a.png,x\nnone.png,y\n", "labels.csv:3", "none.png"),
        std::tuple("a.png,x\nb.png,\n", "labels.csv:3", "no class"), std::tuple(",x\n", "labels.csv:2", "no picture"),
        std::tuple("a.png\n", "labels.csv:2", "1 fields")}) {
    const auto error = error_of([&] { read(std::string("file,kind\n") + rows); });
    ASSERT_TRUE(error) << rows;
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
    EXPECT_THAT(error->what(), ::testing::AllOf(HasSubstr(where), HasSubstr(what), HasSubstr("on_bad_sample")));
  }
  EXPECT_THAT(error_of([&] { read("file,kind\na.png,x\nb.png,x\n"); })->message(), HasSubstr("nothing to learn"));
  EXPECT_THAT(error_of([&] { read("file,kind\na.png,z\n", {"x", "y"}); })->message(), HasSubstr("\"z\""));
  options_.table.target = "knd";
  EXPECT_THAT(error_of([&] { read("file,kind\na.png,x\n"); })->message(), HasSubstr("did you mean \"kind\""));
  options_.table.target = "file";
  EXPECT_EQ(error_of([&] { read("file,kind\na.png,x\n"); })->kind(), ErrorKind::kInvalidInput);
}

TEST_F(PictureLabels, AreAWholeSourceWithOtherSetsInFilesOfTheirOwn) {
  testing::spill(folder_ / "labels.csv", "file,kind\na.png,x\nb.png,y\nmore/c.png,x\ngone.png,y\n");
  testing::spill(folder_ / "test.csv", "file,kind\nd.png,y\n");
  options_.path = folder_ / "pictures";
  options_.labels.file = folder_ / "labels.csv";
  options_.test_path = folder_ / "test.csv";
  options_.bad_samples.on_bad_sample = OnBadSample::kSkip;
  const Data data = open_source(options_);
  EXPECT_EQ(data.train->size(), 3U);
  EXPECT_EQ(data.bad_samples->count(), 1U);
  ASSERT_EQ(data.test->size(), 1U);
  EXPECT_EQ(data.test->label(0), 1);
  EXPECT_EQ(data.test->name(0), (folder_ / "pictures/d.png").string());
  // For a trained model: the names are of the folder in which the file lies.
  fs::create_directories(folder_.path() / "new");
  fs::copy_file(folder_ / "pictures/a.png", folder_ / "new/a.png");
  testing::spill(folder_ / "new/new.csv", "file,kind\na.png,y\n");
  const Alike alike = open_alike(options_, data.form, folder_ / "new/new.csv");
  EXPECT_TRUE(alike.labelled);
  EXPECT_EQ(alike.samples->label(0), 1);
  const Alike bare = open_alike(options_, data.form, folder_ / "new");
  EXPECT_FALSE(bare.labelled);
  EXPECT_EQ(bare.samples->size(), 1U);
  EXPECT_THAT(bare.notes, ElementsAre(HasSubstr("1 .csv")));
}

TEST_F(PictureLabels, FilesThatAreNoPicturesAreCounted) {
  for (const char* kind : {"cat", "dog"}) {
    fs::create_directories(folder_.path() / "classes" / kind);
    folder_.write(std::string("classes/") + kind + "/a.webp", to_webp(testing::make_pixels(9, 9, 3, 1), true));
    folder_.write(std::string("classes/") + kind + "/b.GIF", to_bytes({'G', 'I', 'F'}));
  }
  folder_.write("classes/dog/list.txt", to_bytes({1}));
  options_.path = folder_ / "classes";
  const Data data = open_source(options_);
  EXPECT_EQ(data.train->size() + data.test->size(), 2U);
  ASSERT_EQ(data.notes.size(), 1U);
  EXPECT_THAT(data.notes[0], ::testing::AllOf(HasSubstr("2 .gif and 1 .txt files"), HasSubstr(".webp")));
}

// What damaged pictures a trained model is given is decided by its job, as in training.
TEST_F(PictureLabels, DamagedPicturesAreSkippedAsTheJobSays) {
  testing::spill(folder_ / "labels.csv", "file,kind\na.png,x\nb.png,y\nmore/c.png,x\n");
  options_.path = folder_ / "pictures";
  options_.labels.file = folder_ / "labels.csv";
  const Data data = open_source(options_);
  fs::create_directories(folder_.path() / "new");
  folder_.write("new/1.png", testing::to_png(9, 9, testing::make_pixels(9, 9, 3, 1).values));
  folder_.write("new/2.png", to_bytes({0x89, 'P', 'N', 'G'}));
  std::vector<float> room(3 * 8 * 8);
  const Alike strict = open_alike(options_, data.form, folder_ / "new");
  EXPECT_THAT(error_of([&] { strict.samples->read(1, room); })->what(),
              ::testing::AllOf(HasSubstr("2.png"), HasSubstr("on_bad_sample"), HasSubstr("muster data check")));
  options_.bad_samples.on_bad_sample = OnBadSample::kSkip;
  const Alike tolerant = open_alike(options_, data.form, folder_ / "new");
  tolerant.samples->read(1, room);
  ASSERT_TRUE(tolerant.tolerant);
  EXPECT_THAT(tolerant.tolerant->damaged(std::vector<std::uint64_t>{0, 1}), ElementsAre(1));
  EXPECT_THAT(tolerant.bad_samples->examples(), ElementsAre(HasSubstr("2.png")));
}

}  // namespace
}  // namespace muster::data
