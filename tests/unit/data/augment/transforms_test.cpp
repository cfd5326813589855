// Each change of a picture against its definition, pixel by pixel.
#include "muster/data/augment/transforms.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support.h"

namespace muster::data {
namespace {

std::vector<float> noise(const PictureShape& shape, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::vector<float> values(shape.elements());
  for (float& value : values)
    value = static_cast<float>(generator() / 4294967296.0 - 0.5);
  return values;
}

// 0 outside.
float at(const std::vector<float>& picture, const PictureShape& shape, std::size_t c, std::int64_t y, std::int64_t x) {
  if (x < 0 || y < 0 || x >= static_cast<std::int64_t>(shape.width) || y >= static_cast<std::int64_t>(shape.height)) {
    return 0;
  }
  return picture[(c * shape.height + static_cast<std::size_t>(y)) * shape.width + static_cast<std::size_t>(x)];
}

const std::vector<PictureShape> kShapes{{1, 1, 1}, {3, 1, 7}, {3, 8, 1}, {1, 5, 6}, {3, 32, 32}, {2, 17, 33}};

template <typename Expected>
void expect_picture(const std::vector<float>& picture, const PictureShape& shape, float tolerance,
                    const Expected& expected) {
  for (std::size_t c = 0; c < shape.channels; ++c) {
    for (std::int64_t y = 0; y < static_cast<std::int64_t>(shape.height); ++y) {
      for (std::int64_t x = 0; x < static_cast<std::int64_t>(shape.width); ++x)
        ASSERT_NEAR(at(picture, shape, c, y, x), expected(c, y, x), tolerance) << c << " " << y << " " << x;
    }
  }
}

TEST(Flip, MirrorsEveryRowAndTwiceIsTheIdentity) {
  for (const PictureShape& shape : kShapes) {
    const std::vector<float> before = noise(shape);
    std::vector<float> picture = before;
    flip(picture, shape);
    const auto last = static_cast<std::int64_t>(shape.width) - 1;
    expect_picture(picture, shape, 0,
                   [&](std::size_t c, std::int64_t y, std::int64_t x) { return at(before, shape, c, y, last - x); });
    flip(picture, shape);
    EXPECT_EQ(picture, before);
  }
}

TEST(Shift, MovesThePictureAndFillsWithTheMean) {
  for (const PictureShape& shape : kShapes) {
    for (const std::int64_t right : {-100, -3, -1, 0, 1, 4, 100}) {
      for (const std::int64_t down : {-100, -2, 0, 3, 100}) {
        const std::vector<float> before = noise(shape);
        std::vector<float> picture = before;
        shift(picture, shape, right, down);
        expect_picture(picture, shape, 0, [&](std::size_t c, std::int64_t y, std::int64_t x) {
          return at(before, shape, c, y + down, x + right);
        });
      }
    }
  }
}

TEST(Rotate, QuarterTurnsArePermutationsOfThePixels) {
  for (const PictureShape& shape : {PictureShape{1, 1, 1}, PictureShape{3, 8, 8}, PictureShape{2, 31, 31}}) {
    const std::vector<float> before = noise(shape);
    const auto last = static_cast<std::int64_t>(shape.width) - 1;
    std::vector<float> picture = before;
    rotate(picture, shape, 90);
    expect_picture(picture, shape, 1e-4F, [&](std::size_t c, std::int64_t y, std::int64_t x) {
      return at(before, shape, c, last - x, y);  // clockwise: what was at the left is at the top
    });
    picture = before;
    rotate(picture, shape, 180);
    expect_picture(picture, shape, 1e-4F, [&](std::size_t c, std::int64_t y, std::int64_t x) {
      return at(before, shape, c, last - y, last - x);
    });
    picture = before;
    rotate(picture, shape, -90);
    rotate(picture, shape, 90);
    expect_picture(picture, shape, 1e-4F,
                   [&](std::size_t c, std::int64_t y, std::int64_t x) { return at(before, shape, c, y, x); });
  }
}

TEST(Rotate, NoDegreesAreTheIdentityForAnyShape) {
  for (const PictureShape& shape : kShapes) {
    const std::vector<float> before = noise(shape);
    std::vector<float> picture = before;
    rotate(picture, shape, 0);
    EXPECT_EQ(picture, before);
  }
}

TEST(Rotate, AnyAngleIsBilinearInterpolationAtTheTurnedPlace) {
  const PictureShape shape{2, 20, 27};
  const std::vector<float> before = noise(shape);
  for (const double degrees : {-33.0, 7.0, 145.0}) {
    std::vector<float> picture = before;
    rotate(picture, shape, degrees);
    const double angle = degrees * 3.14159265358979 / 180;
    expect_picture(picture, shape, 2e-4F, [&](std::size_t c, std::int64_t y, std::int64_t x) {
      const double u = static_cast<double>(x) - 13;
      const double v = static_cast<double>(y) - 9.5;
      const double from_x = u * std::cos(angle) + v * std::sin(angle) + 13;
      const double from_y = -u * std::sin(angle) + v * std::cos(angle) + 9.5;
      const auto x0 = static_cast<std::int64_t>(std::floor(from_x));
      const auto y0 = static_cast<std::int64_t>(std::floor(from_y));
      const double fx = from_x - static_cast<double>(x0);
      const double fy = from_y - static_cast<double>(y0);
      return (at(before, shape, c, y0, x0) * (1 - fx) + at(before, shape, c, y0, x0 + 1) * fx) * (1 - fy) +
             (at(before, shape, c, y0 + 1, x0) * (1 - fx) + at(before, shape, c, y0 + 1, x0 + 1) * fx) * fy;
    });
  }
}

TEST(CutOut, ClearsTheSquareAndNothingElse) {
  const PictureShape shape{3, 9, 11};
  for (const std::int64_t side : {1, 2, 5, 40}) {
    for (const auto& [px, py] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {10, 8}, {5, 4}}) {
      const std::int64_t x0 = px;
      const std::int64_t y0 = py;
      const std::vector<float> before = noise(shape);
      std::vector<float> picture = before;
      cut_out(picture, shape, x0, y0, side);
      expect_picture(picture, shape, 0, [&](std::size_t c, std::int64_t y, std::int64_t x) {
        const bool inside =
            x >= x0 - side / 2 && x < x0 - side / 2 + side && y >= y0 - side / 2 && y < y0 - side / 2 + side;
        return inside ? 0.0F : at(before, shape, c, y, x);
      });
    }
  }
}

const Normalization kThree{.mean = {0.4F, 0.5F, 0.6F}, .stddev = {0.2F, 0.25F, 0.3F}};

// Intensities between 0 and 1 for `picture`, normalised.
double intensity(const std::vector<float>& picture, const PictureShape& shape, std::size_t c, std::size_t i) {
  return picture[c * shape.height * shape.width + i] * kThree.stddev[c] + kThree.mean[c];
}

TEST(Jitter, IsBrightnessThenContrastThenSaturation) {
  const PictureShape shape{3, 13, 17};
  const std::vector<float> before = noise(shape);  // so all intensities are well inside 0 .. 1
  const std::size_t plane = 13 * 17;
  const double weights[] = {0.299, 0.587, 0.114};
  for (const ColourFactors& factors : {ColourFactors{1.1, 1, 1}, ColourFactors{1, 0.7, 1}, ColourFactors{1, 1, 0.3},
                                       ColourFactors{0.9, 1.2, 1.3}, ColourFactors{1, 1, 0}, ColourFactors{1, 1, 1}}) {
    std::vector<float> picture = before;
    jitter(picture, shape, kThree, factors);
    double grey = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < plane; ++i)
        grey += weights[c] * factors.brightness * intensity(before, shape, c, i) / static_cast<double>(plane);
    }
    for (std::size_t i = 0; i < plane; ++i) {
      double contrasted[3];
      double own_grey = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        contrasted[c] = (factors.brightness * intensity(before, shape, c, i) - grey) * factors.contrast + grey;
        own_grey += weights[c] * contrasted[c];
      }
      for (std::size_t c = 0; c < 3; ++c) {
        const double expected = std::clamp((contrasted[c] - own_grey) * factors.saturation + own_grey, 0.0, 1.0);
        ASSERT_NEAR(intensity(picture, shape, c, i), expected, 1e-5);
      }
    }
  }
}

TEST(Jitter, StaysWithinBlackAndWhite) {
  const PictureShape shape{3, 40, 40};
  std::vector<float> picture = noise(shape);
  jitter(picture, shape, kThree, {3, 5, 4});
  double low = 1;
  double high = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 1600; ++i) {
      low = std::min(low, intensity(picture, shape, c, i));
      high = std::max(high, intensity(picture, shape, c, i));
    }
  }
  EXPECT_NEAR(low, 0, 1e-6);
  EXPECT_NEAR(high, 1, 1e-6);
  PictureShape grey{1, 4, 4};
  std::vector<float> dark = noise(grey);
  jitter(dark, grey, {.mean = {0.5F}, .stddev = {0.5F}}, {0, 1, 7});
  for (const float value : dark)
    EXPECT_FLOAT_EQ(value, -1) << "no light is black, and grey has no saturation";
}

}  // namespace
}  // namespace muster::data
