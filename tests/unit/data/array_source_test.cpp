// Archives and folders of arrays as samples; damaged ones are found before they cost memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/zip.h"
#include "muster/data/array_dataset.h"
#include "muster/data/sources.h"
#include "muster/data/subset.h"
#include "npy_files.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Zip, GivesBackStoredAndDeflatedMembers) {
  const std::vector<ZipEntry> entries{{"a.npy", to_bytes({1, 2, 3})}, {"b", Bytes(100'000, std::byte{7})}};
  for (const bool deflated : {false, true}) {
    const Bytes archive = zip(entries, deflated);
    const auto members = zip_members(archive, "z");
    ASSERT_EQ(members.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(members[i].name, entries[i].name);
      EXPECT_EQ(read_member(archive, members[i], "z"), entries[i].contents);
    }
  }
}

TEST(Zip, TheFrontOfAMemberIsReadWithoutTheRest) {
  for (const bool deflated : {false, true}) {
    const Bytes archive = zip({{"a", Bytes(100'000, std::byte{7})}}, deflated);
    const ZipMember member = zip_members(archive, "z")[0];
    for (const std::size_t most : {0U, 1U, 99'999U, 100'000U, 100'001U})
      EXPECT_EQ(read_front(archive, member, most, "z"), Bytes(std::min<std::size_t>(most, 100'000), std::byte{7}));
  }
}

TEST(Zip, DamageIsFound) {
  const Bytes archive = zip({{"a", Bytes(1000, std::byte{7})}}, false);
  Bytes altered = archive;
  altered[500] ^= std::byte{1};
  const auto members = zip_members(altered, "z");
  EXPECT_EQ(error_of([&] { read_member(altered, members[0], "z"); })->kind(), ErrorKind::kDamaged);
  for (std::size_t size = 0; size < archive.size(); size += 7) {
    const Bytes cut(archive.begin(), archive.begin() + static_cast<long>(size));
    ASSERT_TRUE(error_of([&] { zip_members(cut, "z"); })) << size;
  }
  // A size in the directory that no compressed bytes could become.
  Bytes bomb = zip({{"a", Bytes(1000, std::byte{7})}}, true);
  const std::size_t directory = bomb.size() - 22 - 47;
  bomb[directory + 27] = std::byte{0x7F};
  EXPECT_EQ(error_of([&] { zip_members(bomb, "z"); })->kind(), ErrorKind::kDamaged);
}

class NumpySource : public ::testing::Test {
 protected:
  Data open(const std::filesystem::path& path, bool regression = false) {
    SourceOptions options;
    options.source = "numpy";
    options.path = path;
    options.table.regression = regression;
    return open_source(options);
  }
  TemporaryFolder folder_;
};

TEST_F(NumpySource, ReadsTheFourArraysOfAnArchive) {
  for (const bool deflated : {false, true}) {
    const auto file = folder_.write(
        "set.npz", zip({{"x_train.npy", npy<std::uint8_t>("|u1", "(2, 2, 2)", {0, 255, 0, 255, 0, 255, 0, 255})},
                        {"y_train.npy", npy<std::int64_t>("<i8", "(2,)", {2, 0})},
                        {"x_test.npy", npy<std::uint8_t>("|u1", "(1, 2, 2)", {255, 255, 255, 0})},
                        {"y_test.npy", npy<std::uint8_t>("|u1", "(1, 1)", {1})}},
                       deflated));
    const Data data = open(file);
    EXPECT_EQ(data.train->size(), 2U);
    EXPECT_EQ(data.train->spec().shape, (std::vector<std::int64_t>{1, 2, 2}));
    EXPECT_EQ(data.train->spec().classes, 3);
    EXPECT_NEAR(data.normalization.mean[0], 0.5, 1e-6);
    EXPECT_NEAR(data.normalization.stddev[0], 0.5, 1e-6);
    std::vector<float> features(4);
    EXPECT_EQ(data.test->read(0, features), 1);
    EXPECT_NEAR(features[0], 1, 1e-6);
    EXPECT_NEAR(features[3], -1, 1e-6);
  }
}

// Its end is damaged: who unpacks all of it before looking at the header says that instead.
TEST_F(NumpySource, AMemberThatIsLargerThanItsHeaderSaysIsRefusedBeforeItIsUnpacked) {
  std::vector<float> noise(100'000);
  std::uint32_t state = 1;
  for (float& value : noise)
    value = static_cast<float>((state = state * 1664525U + 1013904223U) >> 8);
  for (const bool deflated : {false, true}) {
    Bytes archive = zip({{"x.npy", npy<float>("<f4", "(10, 4)", noise)}}, deflated);
    archive[archive.size() / 4 * 3] ^= std::byte{0x55};
    const auto error = error_of([&] { open(folder_.write("lie.npz", archive)); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
    EXPECT_THAT(error->message(), HasSubstr("declares an array of another size"));
  }
}

TEST_F(NumpySource, ReadsAFolderSampleBySampleAndHoldsOutATestSet) {
  std::vector<float> x(40);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i);
  folder_.write("x.npy", npy<float>("<f4", "(20, 2)", x));
  folder_.write("y.npy", npy<std::int32_t>("<i4", "(20,)", std::vector<std::int32_t>(20, 1)));
  const Data data = open(folder_.path());
  EXPECT_EQ(data.train->size(), 18U);
  EXPECT_EQ(data.test->size(), 2U);
  EXPECT_EQ(data.train->spec().shape, (std::vector<std::int64_t>{2}));
  // Features are scaled one by one, by what is left for training: its mean is 0 and its variance 1.
  for (std::size_t column = 0; column < 2; ++column) {
    double sum = 0;
    double squares = 0;
    std::vector<float> features(2);
    for (std::uint64_t id = 0; id < data.train->size(); ++id) {
      data.train->read(id, features);
      sum += features[column];
      squares += features[column] * features[column];
    }
    EXPECT_NEAR(sum / 18, 0, 1e-5);
    EXPECT_NEAR(squares / 18, 1, 1e-5);
  }
}

TEST_F(NumpySource, HeldOutSamplesDoNotEnterTheScale) {
  // The held-out values could not be further off; which they are is split()'s choice.
  const Split parts = split(std::make_shared<Counting>(20), 0.1, 1);
  const Split rest = split(parts.train, 0.5, 1);
  std::vector<float> x(20, 1000);
  std::vector<std::int32_t> y(20, 0);
  for (std::uint64_t id = 0; id < rest.train->size(); ++id)
    x[parts.train->original(rest.train->original(id))] = static_cast<float>(id % 3);
  folder_.write("x.npy", npy<float>("<f4", "(20, 1)", x));
  folder_.write("y.npy", npy<std::int32_t>("<i4", "(20,)", y));
  const Data data =
      open_source({.source = "numpy", .path = folder_.path(), .seed = 1, .test_fraction = 0.1, .validation = 0.5});
  EXPECT_EQ(data.train->size(), 9U);
  EXPECT_EQ(data.validation->size(), 9U);
  EXPECT_NEAR(data.normalization.mean[0], 1, 1e-6);
}

TEST_F(NumpySource, AValidationSetMayBeInTheFileOrInOneOfItsOwn) {
  const auto x = npy<float>("<f4", "(2, 1)", {1, 3});
  const auto y = npy<std::int64_t>("<i8", "(2,)", {0, 1});
  const auto other_x = npy<float>("<f4", "(1, 1)", {3});
  const auto other_y = npy<std::int64_t>("<i8", "(1,)", {1});
  const auto both = folder_.write("both.npz", zip({{"x_train.npy", x},
                                                   {"y_train.npy", y},
                                                   {"x_test.npy", other_x},
                                                   {"y_test.npy", other_y},
                                                   {"x_validation.npy", other_x},
                                                   {"y_validation.npy", other_y}},
                                                  false));
  const auto train = folder_.write("train.npz", zip({{"x.npy", x}, {"y.npy", y}}, false));
  const auto other = folder_.write("other.npz", zip({{"x.npy", other_x}, {"y.npy", other_y}}, false));
  for (const SourceOptions& options :
       {SourceOptions{.source = "numpy", .path = both},
        SourceOptions{.source = "numpy", .path = train, .test_path = other, .validation_path = other}}) {
    const Data data = open_source(options);
    ASSERT_TRUE(data.validation);
    EXPECT_EQ(data.train->size(), 2U);
    std::vector<float> features(1);
    EXPECT_EQ(data.validation->read(0, features), 1);
    EXPECT_NEAR(features[0], 1, 1e-6) << "by the scale of the training set";
  }
}

TEST_F(NumpySource, TurnsChannelsThatStandLast) {
  // One picture of 2 x 2 with channels 3: pixel (i, j) of channel c is 10 * (2 i + j) + c.
  std::vector<float> x;
  for (int pixel = 0; pixel < 4; ++pixel) {
    for (int c = 0; c < 3; ++c)
      x.push_back(static_cast<float>(10 * pixel + c));
  }
  ArrayDataset dataset(NpyArray(npy<float>("<f4", "(1, 2, 2, 3)", x), "x"), {.labels = {0}}, 1);
  EXPECT_EQ(dataset.spec().shape, (std::vector<std::int64_t>{3, 2, 2}));
  std::vector<float> features(12);
  dataset.read(0, features);
  EXPECT_THAT(features, ElementsAre(0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32));
}

TEST_F(NumpySource, RegressionTakesValuesOfAnyWidthByTheScaleOfTheTrainingSet) {
  folder_.write("x_train.npy", npy<double>("<f8", "(2, 1)", {1, 2}));
  folder_.write("y_train.npy", npy<double>("<f8", "(2, 2)", {0.5, 1.5, 2.5, 3.5}));
  folder_.write("x_test.npy", npy<double>("<f8", "(1, 1)", {1}));
  folder_.write("y_test.npy", npy<double>("<f8", "(1, 2)", {-1, -2}));
  const Data data = open(folder_.path(), true);
  EXPECT_EQ(data.train->spec().target, TargetKind::kValues);
  float feature = 0;
  std::vector<float> values(2);
  data.train->read_sample(1, {.features = std::span(&feature, 1), .values = values});
  EXPECT_THAT(values, ElementsAre(1, 1)) << "2.5 and 3.5, means 1.5 and 2.5, deviations 1";
  data.test->read_sample(0, {.features = std::span(&feature, 1), .values = values});
  EXPECT_THAT(values, ElementsAre(-2.5F, -4.5F));
  ASSERT_EQ(data.test->spec().target_scale.size(), 2U);
  EXPECT_EQ(data.test->spec().target_scale[1].mean, 2.5);
  EXPECT_EQ(data.test->spec().target_scale[1].stddev, 1);
}

TEST_F(NumpySource, ASampleThatIsNotFiniteIsNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ArrayDataset dataset(NpyArray(npy<float>("<f4", "(2, 1)", {1, nan}), "x.npy"), {.labels = {0, 1}}, 2);
  float feature = 0;
  EXPECT_NO_THROW(dataset.read(0, std::span(&feature, 1)));
  const auto error = error_of([&] { dataset.read(1, std::span(&feature, 1)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(error->where(), HasSubstr("sample 1"));
}

TEST_F(NumpySource, ArraysThatDoNotFitAreRefused) {
  folder_.write("x.npy", npy<float>("<f4", "(3, 1)", {1, 2, 3}));
  EXPECT_EQ(error_of([&] { open(folder_.path()); })->kind(), ErrorKind::kNotFound);
  folder_.write("y.npy", npy<std::int64_t>("<i8", "(2,)", {0, 1}));
  EXPECT_THAT(error_of([&] { open(folder_.path()); })->message(), HasSubstr("3 samples and 2 targets"));
  folder_.write("y.npy", npy<std::int64_t>("<i8", "(3,)", {0, -1, 1}));
  EXPECT_THAT(error_of([&] { open(folder_.path()); })->message(), HasSubstr("element 1 is -1"));
  folder_.write("y.npy", npy<float>("<f4", "(3,)", {0, 0.5F, 1}));
  EXPECT_THAT(error_of([&] { open(folder_.path()); })->remedy(), HasSubstr("regression"));
  folder_.write("y.npy", npy<std::int64_t>("<i8", "(3, 2)", {0, 1, 0, 1, 0, 1}));
  EXPECT_THAT(error_of([&] { open(folder_.path()); })->remedy(), HasSubstr("argmax"));
}

}  // namespace
}  // namespace muster::data
