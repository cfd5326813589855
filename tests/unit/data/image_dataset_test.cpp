// Normalised pixels against the formula, and what the measured normalisation gives.
#include "muster/data/image_dataset.h"

#include "support.h"

namespace muster::data {
namespace {

Images small() {
  Images images{.channels = 2, .height = 1, .width = 3, .classes = 5, .labels = {4, 0}};
  images.pixels = {0, 51, 255, 1, 2, 3, 10, 20, 30, 40, 50, 60};
  return images;
}

TEST(ImageDataset, ReadsNormalisedPixelsAndLabels) {
  const Images images = small();
  const Normalization normalization{{0.25F, 0.5F}, {0.5F, 2.0F}};
  const ImageDataset dataset(images, normalization);
  EXPECT_EQ(dataset.size(), 2U);
  EXPECT_EQ(dataset.spec().shape, (std::vector<std::int64_t>{2, 1, 3}));
  EXPECT_EQ(dataset.spec().classes, 5);
  std::vector<float> features(dataset.spec().elements());
  for (std::uint64_t id = 0; id < 2; ++id) {
    EXPECT_EQ(dataset.read(id, features), images.labels[id]);
    for (std::size_t i = 0; i < features.size(); ++i) {
      const std::size_t c = i / 3;
      const double expected = (images.pixels[id * 6 + i] / 255.0 - normalization.mean[c]) / normalization.stddev[c];
      EXPECT_NEAR(features[i], expected, 1e-6);
    }
  }
}

TEST(ImageDataset, MeasuredNormalisationGivesMeanZeroAndVarianceOne) {
  const Images images = small();
  const ImageDataset dataset(images, measure(images));
  std::vector<float> features(6);
  for (std::size_t c = 0; c < 2; ++c) {
    double sum = 0;
    double squares = 0;
    for (std::uint64_t id = 0; id < 2; ++id) {
      dataset.read(id, features);
      for (std::size_t i = c * 3; i < c * 3 + 3; ++i) {
        sum += features[i];
        squares += features[i] * features[i];
      }
    }
    EXPECT_NEAR(sum / 6, 0, 1e-6);
    EXPECT_NEAR(squares / 6, 1, 1e-5);
  }
}

TEST(ImageDataset, RefusesANormalisationOfAnotherNumberOfChannels) {
  const auto error = error_of([] { ImageDataset(small(), {{0.5F}, {0.5F}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
}

TEST(ImageDatasetDeathTest, ASampleBeyondTheEndStopsTheProgram) {
  const ImageDataset dataset(small(), {{0, 0}, {1, 1}});
  std::vector<float> features(6);
  EXPECT_DEATH(dataset.read(2, features), "beyond the data set");
}

}  // namespace
}  // namespace muster::data
