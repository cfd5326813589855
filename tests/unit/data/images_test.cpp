// Statistics against the two-pass formula, up to sums that nearly overflow.
#include "muster/data/images.h"

#include <cmath>
#include <limits>
#include <random>

#include "support.h"

namespace muster::data {
namespace {

Images random_images(std::int64_t channels, std::int64_t height, std::int64_t width, std::uint64_t count) {
  std::mt19937 generator(7);
  Images images{.channels = channels, .height = height, .width = width, .classes = 2};
  images.pixels.resize(count * static_cast<std::uint64_t>(channels * height * width));
  for (auto& pixel : images.pixels)
    pixel = static_cast<std::uint8_t>(generator());
  images.labels.assign(count, 1);
  return images;
}

TEST(Measure, AgreesWithTheTwoPassFormula) {
  // 200 x 200 is more than one block of the integer sums.
  for (const auto& images : {random_images(1, 1, 1, 2), random_images(3, 5, 7, 11), random_images(2, 200, 200, 3)}) {
    const Normalization measured = measure(images);
    const auto plane = static_cast<std::size_t>(images.height * images.width);
    for (std::size_t c = 0; c < static_cast<std::size_t>(images.channels); ++c) {
      std::vector<double> values;
      for (std::size_t i = 0; i < images.pixels.size(); ++i) {
        if (i / plane % static_cast<std::size_t>(images.channels) == c) values.push_back(images.pixels[i] / 255.0);
      }
      double mean = 0;
      for (const double value : values)
        mean += value / static_cast<double>(values.size());
      double variance = 0;
      for (const double value : values)
        variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
      EXPECT_NEAR(measured.mean[c], mean, 1e-6);
      EXPECT_NEAR(measured.stddev[c], std::sqrt(variance), 1e-6);
    }
  }
}

TEST(Measure, AllWhiteImagesOverflowNoSum) {
  Images images = random_images(1, 300, 300, 2);
  std::fill(images.pixels.begin(), images.pixels.end(), std::uint8_t{255});
  images.pixels.front() = 0;
  const double n = 180000;
  const Normalization measured = measure(images);
  EXPECT_NEAR(measured.mean[0], (n - 1) / n, 1e-7);
  EXPECT_NEAR(measured.stddev[0], std::sqrt((n - 1) / (n * n)), 1e-8);
}

TEST(Measure, AChannelWithoutVarianceGetsDeviationOne) {
  Images images = random_images(2, 2, 2, 3);
  for (std::size_t i = 0; i < images.pixels.size(); ++i) {
    if (i / 4 % 2 == 1) images.pixels[i] = 51;
  }
  const Normalization measured = measure(images);
  EXPECT_NE(measured.stddev[0], 1.0F);
  EXPECT_FLOAT_EQ(measured.mean[1], 0.2F);
  EXPECT_EQ(measured.stddev[1], 1.0F);
}

TEST(ValidateImages, RefusesWhatDoesNotFitTogether) {
  const Images good = random_images(1, 2, 2, 3);
  EXPECT_NO_THROW(validate(good));
  const auto kind = [](const Images& images) {
    const auto error = error_of([&] { validate(images); });
    return error ? std::optional(error->kind()) : std::nullopt;
  };
  Images bad = good;
  bad.pixels.pop_back();
  EXPECT_EQ(kind(bad), ErrorKind::kInvalidInput);
  bad = good;
  bad.width = 0;
  EXPECT_EQ(kind(bad), ErrorKind::kInvalidInput);
  bad = good;
  bad.labels[1] = 2;
  EXPECT_EQ(kind(bad), ErrorKind::kInvalidInput);
  bad = good;
  bad.labels[1] = -1;
  EXPECT_EQ(kind(bad), ErrorKind::kInvalidInput);
  // 3 * 2^62 * 2^62 is 0 in 64 bits, which an empty vector of pixels would fit.
  bad = good;
  bad.height = bad.width = std::int64_t{1} << 62;
  bad.pixels.clear();
  EXPECT_EQ(kind(bad), ErrorKind::kInvalidInput);
}

TEST(ValidateNormalization, RefusesWrongCountsAndUselessValues) {
  const auto refused = [](const Normalization& normalization) {
    const auto error = error_of([&] { validate(normalization, 1); });
    return error && error->kind() == ErrorKind::kInvalidInput;
  };
  EXPECT_FALSE(refused({{0.5F}, {0.25F}}));
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({{0.5F, 0.5F}, {0.25F, 0.25F}}));
  EXPECT_TRUE(refused({{0.5F}, {0.0F}}));
  EXPECT_TRUE(refused({{0.5F}, {-1.0F}}));
  EXPECT_TRUE(refused({{0.5F}, {std::numeric_limits<float>::infinity()}}));
  EXPECT_TRUE(refused({{std::numeric_limits<float>::quiet_NaN()}, {1.0F}}));
}

}  // namespace
}  // namespace muster::data
