// The table of sources, and what all of them promise of their two sets.
#include "muster/data/sources.h"

#include <algorithm>
#include <cmath>

#include "idx_files.h"

namespace muster::data {
namespace {

TEST(Sources, AreListedWithOneLineOfHelp) {
  std::vector<std::string> names;
  for (const SourceInfo& source : sources()) {
    names.push_back(source.name);
    EXPECT_FALSE(source.help.empty());
    EXPECT_EQ(source.help.find('\n'), std::string::npos);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"cifar10", "csv", "fashion-mnist", "idx", "library", "numpy", "packed",
                                             "pictures", "synthetic", "text"}));
}

TEST(OpenSource, AnUnknownNameGetsTheNearestAndTheList) {
  const auto error = error_of([] { open_source({.source = "fashion-mnits"}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  const std::string text = error->what();
  EXPECT_NE(text.find("did you mean \"fashion-mnist\""), std::string::npos) << text;
  for (const SourceInfo& source : sources())
    EXPECT_NE(text.find(source.name), std::string::npos) << text;
}

TEST(OpenSource, FilesNeedAPath) {
  for (const std::string source : {"idx", "cifar10", "csv", "numpy", "text", "packed"}) {
    const auto error = error_of([&] { open_source({.source = source}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
    EXPECT_NE(error->message().find(source), std::string::npos);
  }
}

class IdxFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("train-images-idx3-ubyte.gz", gzip(idx_bytes({4, 2, 3}, 24)));
    folder_.write("train-labels-idx1-ubyte", idx_labels({0, 1, 2, 1}));
    folder_.write("t10k-images-idx3-ubyte", idx_bytes({2, 2, 3}, 12));
    folder_.write("t10k-labels-idx1-ubyte.gz", gzip(idx_labels({1, 0})));
  }
  Data open(std::optional<Normalization> normalization = std::nullopt) {
    return open_source({.source = "idx", .path = folder_.path(), .normalization = std::move(normalization)});
  }
  std::optional<Error> open_error() {
    return error_of([&] { open(); });
  }

  TemporaryFolder folder_;
};

TEST_F(IdxFolder, BothSetsAreNormalisedByTheTrainingSet) {
  const Data data = open();
  EXPECT_EQ(data.train->size(), 4U);
  EXPECT_EQ(data.test->size(), 2U);
  EXPECT_EQ(data.train->spec().classes, 3);
  EXPECT_EQ(data.test->spec().classes, 3);  // though its own labels are two
  EXPECT_EQ(data.test->spec().shape, (std::vector<std::int64_t>{1, 2, 3}));
  // Pixels 0 .. 23: mean 11.5, variance (24^2 - 1) / 12.
  EXPECT_NEAR(data.normalization.mean[0], 11.5 / 255, 1e-6);
  EXPECT_NEAR(data.normalization.stddev[0], std::sqrt(575.0 / 12) / 255, 1e-6);
  std::vector<float> features(6);
  EXPECT_EQ(data.test->read(0, features), 1);
  EXPECT_NEAR(features[5], (5 - 11.5) / std::sqrt(575.0 / 12), 1e-5);
  EXPECT_NE(data.description.find("4 training and 2 test samples of 1x2x3, 3 classes"), std::string::npos)
      << data.description;
}

TEST_F(IdxFolder, AGivenNormalisationIsUsedInstead) {
  const Normalization given{{0.5F}, {0.5F}};
  const Data data = open(given);
  EXPECT_EQ(data.normalization, given);
  std::vector<float> features(6);
  data.train->read(0, features);
  EXPECT_NEAR(features[0], -1.0, 1e-6);
}

TEST_F(IdxFolder, ANormalisationOfAnotherShapeIsRefused) {
  const auto error = error_of([&] { open(Normalization{{0.5F, 0.5F, 0.5F}, {1, 1, 1}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
}

TEST_F(IdxFolder, SetsThatDoNotFitTogetherAreRefused) {
  folder_.write("t10k-images-idx3-ubyte", idx_bytes({2, 3, 2}, 12));
  auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kMismatch);
  folder_.write("t10k-images-idx3-ubyte", idx_bytes({2, 2, 3}, 12));
  folder_.write("t10k-labels-idx1-ubyte.gz", gzip(idx_labels({1, 3})));
  error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kMismatch);
}

TEST_F(IdxFolder, AMissingFileIsNamed) {
  std::filesystem::remove(folder_.path() / "t10k-labels-idx1-ubyte.gz");
  const auto error = open_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error->where(), (folder_.path() / "t10k-labels-idx1-ubyte").string());
}

TEST(OpenSource, MissingFashionMnistSaysHowToInstallIt) {
  const TemporaryFolder folder;
  const auto error = error_of([&] { open_source({.source = "fashion-mnist", .path = folder.path() / "none"}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
  EXPECT_NE(error->remedy().find("apt-get install dataset-fashion-mnist"), std::string::npos);
}

TEST(OpenSource, FashionMnistNeedsNoPath) {
  const Data data = open_source({.source = "fashion-mnist"});
  EXPECT_EQ(data.train->size(), 60000U);
  EXPECT_EQ(data.test->size(), 10000U);
  EXPECT_EQ(data.train->spec().classes, 10);
}

TEST(OpenSource, Cifar10ComesFromItsFolder) {
  const TemporaryFolder folder;
  for (const std::string name :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    Bytes record(3073, std::byte{100});
    record[0] = std::byte{3};
    record[1] = std::byte{200};  // some variance in the first channel
    folder.write(name + ".bin", record);
  }
  const Data data = open_source({.source = "cifar10", .path = folder.path()});
  EXPECT_EQ(data.train->size(), 5U);
  EXPECT_EQ(data.test->size(), 1U);
  EXPECT_EQ(data.normalization.mean.size(), 3U);
  EXPECT_EQ(data.normalization.stddev[2], 1.0F);
  std::vector<float> features(3072);
  EXPECT_EQ(data.test->read(0, features), 3);
}

TEST(OpenSource, SyntheticTestSamplesAreNotTrainingSamples) {
  const SourceOptions options{
      .source = "synthetic", .path = {}, .shape = {4}, .classes = 3, .samples = 6, .test_samples = 2, .seed = 5};
  const Data data = open_source(options);
  SourceOptions more = options;
  more.samples = 8;
  const Data longer = open_source(more);
  EXPECT_EQ(data.normalization, Normalization{});
  std::vector<float> test(4);
  std::vector<float> next(4);
  for (std::uint64_t id = 0; id < 2; ++id) {
    EXPECT_EQ(data.test->read(id, test), longer.train->read(6 + id, next));
    EXPECT_EQ(test, next);
  }
}

TEST(OpenSource, SyntheticTakesBackItsOwnNormalisationAndNoOther) {
  SourceOptions options{.source = "synthetic", .path = {}, .shape = {4}};
  options.normalization = Normalization{};
  EXPECT_NO_THROW(open_source(options));
  options.normalization = Normalization{{0.5F}, {0.5F}};
  const auto error = error_of([&] { open_source(options); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
}

}  // namespace
}  // namespace muster::data
