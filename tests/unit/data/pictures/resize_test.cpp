// The two passes against the definition in double precision, for odd sizes and windows.
#include "muster/data/pictures/resize.h"

#include <cmath>
#include <numeric>

#include "support.h"
#include "support/picture_files.h"

namespace muster::data {
namespace {

using ::muster::testing::make_pixels;
using ::muster::testing::Pixels;

// The definition, in double and without passes: crop, then the triangle filter over both axes at once.
double resized(const Pixels& pixels, const Window& window, const Extent& out, std::uint32_t i, std::uint32_t j, int c) {
  const double sx = static_cast<double>(window.width) / out.width;
  const double sy = static_cast<double>(window.height) / out.height;
  double sum = 0;
  double weights = 0;
  for (std::uint32_t y = 0; y < window.height; ++y) {
    for (std::uint32_t x = 0; x < window.width; ++x) {
      const double wx = 1 - std::abs(x + 0.5 - (i + 0.5) * sx) / std::max(1.0, sx);
      const double wy = 1 - std::abs(y + 0.5 - (j + 0.5) * sy) / std::max(1.0, sy);
      if (wx <= 0 || wy <= 0) continue;
      sum += wx * wy * pixels.at(window.x + x, window.y + y, c);
      weights += wx * wy;
    }
  }
  return sum / weights;
}

TEST(ReadResized, AgreesWithTheDefinitionForAnySizeAndWindow) {
  for (const int channels : {1, 3}) {
    const Pixels pixels = make_pixels(37, 29, channels, 1);
    const Bytes png = ::muster::testing::to_png(
        37, 29, pixels.values, {.color_type = channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB});
    const PictureFormat base{.extent = {},
                             .scale = std::vector<float>(static_cast<unsigned>(channels), 0.5F),
                             .shift = std::vector<float>(static_cast<unsigned>(channels), -3.0F)};
    for (const Window& window :
         {Window{0, 0, 37, 29}, Window{3, 5, 20, 10}, Window{36, 28, 1, 1}, Window{10, 0, 2, 29}}) {
      for (const Extent& out : {Extent{37, 29}, Extent{8, 8}, Extent{50, 61}, Extent{1, 1}, Extent{17, 3}}) {
        PictureFormat format = base;
        format.extent = out;
        std::vector<float> features(std::size_t{out.width} * out.height * static_cast<unsigned>(channels));
        const auto decoder = open_picture(png, {.channels = channels});
        read_resized(*decoder, window, format, features);
        for (int c = 0; c < channels; ++c) {
          for (std::uint32_t j = 0; j < out.height; ++j) {
            for (std::uint32_t i = 0; i < out.width; ++i) {
              const std::size_t at = (static_cast<unsigned>(c) * out.height + j) * std::size_t{out.width} + i;
              ASSERT_NEAR(features[at], 0.5 * resized(pixels, window, out, i, j, c) - 3, 1e-3);
            }
          }
        }
      }
    }
  }
}

TEST(ReadResized, TheSameSizeIsTheIdentity) {
  const Pixels pixels = make_pixels(19, 23, 3, 2);
  const auto bytes = ::muster::testing::to_png(19, 23, pixels.values);
  std::vector<float> features(19 * 23 * 3);
  const auto decoder = open_picture(bytes, {});
  read_resized(*decoder, {0, 0, 19, 23}, {.extent = {19, 23}, .scale = {1, 1, 1}, .shift = {0, 0, 0}}, features);
  for (std::size_t i = 0; i < features.size(); ++i)
    ASSERT_EQ(features[i], pixels.values[i % (19 * 23) * 3 + i / (19 * 23)]);
}

TEST(ReadResized, AShrunkJpegIsNearTheOneDecodedWhole) {
  const Pixels pixels = make_pixels(200, 160, 3, 3);
  const auto bytes = ::muster::testing::to_jpeg(pixels, {.quality = 98, .chroma = 1});
  const Window window{30, 20, 150, 130};
  std::vector<float> features(3 * 30 * 30);
  const auto decoder = open_picture(bytes, {});
  read_resized(*decoder, window, {.extent = {30, 30}, .scale = {1, 1, 1}, .shift = {0, 0, 0}}, features);
  double worst = 0;
  for (std::uint32_t j = 0; j < 30; ++j) {
    for (std::uint32_t i = 0; i < 30; ++i)
      worst = std::max(worst, std::abs(features[j * 30 + i] - resized(pixels, window, {30, 30}, i, j, 0)));
  }
  // Decoding at a quarter averages blocks of 4 x 4 first: a little smoother, never elsewhere.
  EXPECT_LT(worst, 20);
}

TEST(ResizeAxis, WeightsSumToOneAndTapsStayInsideTheWindow) {
  for (const std::uint32_t pixels : {1U, 2U, 3U, 7U, 100U, 1001U}) {
    for (const std::uint32_t outputs : {1U, 2U, 5U, 99U, 224U}) {
      const ResizeAxis axis = resize_axis(10, 10.0 + pixels, 10, 10 + pixels, outputs);
      for (std::uint32_t i = 0; i < outputs; ++i) {
        float sum = 0;
        for (std::uint32_t k = 0; k < axis.taps; ++k)
          sum += axis.weights[k * outputs + i];
        ASSERT_NEAR(sum, 1, 1e-5);
        ASSERT_GE(axis.first[i], 10);
        ASSERT_LE(axis.first[i] + static_cast<int>(axis.taps), 10 + static_cast<int>(pixels));
        if (i > 0) {
          ASSERT_GE(axis.first[i], axis.first[i - 1]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace muster::data
