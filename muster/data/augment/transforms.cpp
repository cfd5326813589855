// Loops over planes with as little branching as possible, so that they become vector code; sums are added in a fixed
// order, because the bits of a sample must not depend on the processor.
#include "muster/data/augment/transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "muster/base/check.h"
#include "muster/base/kernel.h"

namespace muster::data {
namespace {

constexpr std::size_t kAccumulators = 16;
constexpr std::array<double, 3> kGrey{0.299, 0.587, 0.114};

void check(std::span<const float> picture, const PictureShape& shape) {
  MUSTER_CHECK(picture.size() == shape.elements(), "a picture of another shape");
}

// A fixed number of sums, so that every processor adds in the same order.
MUSTER_KERNEL double sum(const float* values, std::size_t count) {
  float sums[kAccumulators] = {};
  double total = 0;
  std::size_t i = 0;
  // Rows of the accumulators are emptied often enough to keep their rounding small.
  while (count - i >= kAccumulators) {
    const std::size_t end = std::min(count, i + 64 * kAccumulators);
    for (; end - i >= kAccumulators; i += kAccumulators) {
      for (std::size_t k = 0; k < kAccumulators; ++k)
        sums[k] += values[i + k];
    }
    for (float& partial : sums) {
      total += partial;
      partial = 0;
    }
  }
  for (; i < count; ++i)
    total += values[i];
  return total;
}

// out = clamp(own * out + shift), and for three channels what the others bring.
struct Mix {
  float own;
  float shift;
  float low;
  float high;
};

MUSTER_KERNEL void mix_one(float* picture, std::size_t count, Mix mix) {
  for (std::size_t i = 0; i < count; ++i)
    picture[i] = std::min(std::max(picture[i] * mix.own + mix.shift, mix.low), mix.high);
}

struct MixThree {
  std::array<Mix, 3> channel;
  // Of the grey that is added to channel c: grey_part[c] times the sum over k of grey[k] * value k.
  std::array<float, 3> grey;
  std::array<float, 3> grey_part;
};

MUSTER_KERNEL void mix_three(float* __restrict r, float* __restrict g, float* __restrict b, std::size_t count,
                             const MixThree mix) {
  for (std::size_t i = 0; i < count; ++i) {
    const float grey = r[i] * mix.grey[0] + g[i] * mix.grey[1] + b[i] * mix.grey[2];
    const float red = r[i] * mix.channel[0].own + grey * mix.grey_part[0] + mix.channel[0].shift;
    const float green = g[i] * mix.channel[1].own + grey * mix.grey_part[1] + mix.channel[1].shift;
    const float blue = b[i] * mix.channel[2].own + grey * mix.grey_part[2] + mix.channel[2].shift;
    r[i] = std::min(std::max(red, mix.channel[0].low), mix.channel[0].high);
    g[i] = std::min(std::max(green, mix.channel[1].low), mix.channel[1].high);
    b[i] = std::min(std::max(blue, mix.channel[2].low), mix.channel[2].high);
  }
}

MUSTER_KERNEL void reverse_row(float* row, std::size_t width) {
  for (std::size_t x = 0; x < width / 2; ++x) {
    const float left = row[x];
    row[x] = row[width - 1 - x];
    row[width - 1 - x] = left;
  }
}

// A line through a plane that has a border of zeros: sample x lies at (x0 + x * dx, y0 + x * dy).
struct Line {
  float x0, y0, dx, dy;
  float right, bottom;  // the last coordinates that have a pixel after them
  std::int32_t stride;
};

MUSTER_KERNEL void sample_line(const float* __restrict plane, const Line line, std::size_t count,
                               float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto step = static_cast<float>(static_cast<std::int32_t>(i));
    const float x = std::min(std::max(line.x0 + step * line.dx, 0.0F), line.right);
    const float y = std::min(std::max(line.y0 + step * line.dy, 0.0F), line.bottom);
    const auto column = static_cast<std::int32_t>(x);
    const auto row = static_cast<std::int32_t>(y);
    const float fx = x - static_cast<float>(column);
    const float fy = y - static_cast<float>(row);
    const std::int32_t at = row * line.stride + column;
    const float top = plane[at] * (1 - fx) + plane[at + 1] * fx;
    const float bottom = plane[at + line.stride] * (1 - fx) + plane[at + line.stride + 1] * fx;
    out[i] = top * (1 - fy) + bottom * fy;
  }
}

}  // namespace

void flip(std::span<float> picture, const PictureShape& shape) {
  check(picture, shape);
  for (std::size_t row = 0; row < shape.channels * shape.height; ++row)
    reverse_row(picture.data() + row * shape.width, shape.width);
}

void shift(std::span<float> picture, const PictureShape& shape, std::int64_t right, std::int64_t down) {
  check(picture, shape);
  const auto height = static_cast<std::int64_t>(shape.height);
  const auto width = static_cast<std::int64_t>(shape.width);
  right = std::clamp(right, -width, width);
  down = std::clamp(down, -height, height);
  const auto kept = static_cast<std::size_t>(width - std::abs(right));
  for (std::size_t c = 0; c < shape.channels; ++c) {
    float* plane = picture.data() + c * shape.height * shape.width;
    // In the order in which no row is overwritten before it was moved.
    for (std::int64_t i = 0; i < height; ++i) {
      const std::int64_t y = down >= 0 ? i : height - 1 - i;
      const std::int64_t from = y + down;
      float* line = plane + y * width;
      if (from < 0 || from >= height) {
        std::fill(line, line + width, 0.0F);
        continue;
      }
      const float* source = plane + from * width;
      std::memmove(line + std::max<std::int64_t>(0, -right), source + std::max<std::int64_t>(0, right),
                   kept * sizeof(float));
      if (right > 0) std::fill(line + kept, line + width, 0.0F);
      if (right < 0) std::fill(line, line - right, 0.0F);
    }
  }
}

void rotate(std::span<float> picture, const PictureShape& shape, double degrees) {
  check(picture, shape);
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double middle_x = (static_cast<double>(shape.width) - 1) / 2;
  const double middle_y = (static_cast<double>(shape.height) - 1) / 2;
  // One column and row of zeros before the plane and two after it: any coordinate can be moved to where nothing is.
  const std::size_t stride = shape.width + 3;
  std::vector<float> bordered(stride * (shape.height + 3), 0.0F);
  for (std::size_t c = 0; c < shape.channels; ++c) {
    float* plane = picture.data() + c * shape.height * shape.width;
    for (std::size_t y = 0; y < shape.height; ++y)
      std::memcpy(&bordered[(y + 1) * stride + 1], plane + y * shape.width, shape.width * sizeof(float));
    for (std::size_t y = 0; y < shape.height; ++y) {
      const double v = static_cast<double>(y) - middle_y;
      const Line line{.x0 = static_cast<float>(-cosine * middle_x + sine * v + middle_x + 1),
                      .y0 = static_cast<float>(sine * middle_x + cosine * v + middle_y + 1),
                      .dx = static_cast<float>(cosine),
                      .dy = static_cast<float>(-sine),
                      .right = static_cast<float>(shape.width + 1),
                      .bottom = static_cast<float>(shape.height + 1),
                      .stride = static_cast<std::int32_t>(stride)};
      sample_line(bordered.data(), line, shape.width, plane + y * shape.width);
    }
  }
}

void cut_out(std::span<float> picture, const PictureShape& shape, std::int64_t x, std::int64_t y, std::int64_t side) {
  check(picture, shape);
  const auto inside = [side](std::int64_t centre, std::size_t extent) {
    const auto most = static_cast<std::int64_t>(extent);
    return std::pair{std::clamp<std::int64_t>(centre - side / 2, 0, most),
                     std::clamp<std::int64_t>(centre - side / 2 + side, 0, most)};
  };
  const auto [left, right] = inside(x, shape.width);
  const auto [top, bottom] = inside(y, shape.height);
  for (std::size_t c = 0; c < shape.channels; ++c) {
    for (std::int64_t row = top; row < bottom; ++row) {
      float* line = picture.data() + (c * shape.height + static_cast<std::size_t>(row)) * shape.width;
      std::fill(line + left, line + right, 0.0F);
    }
  }
}

void jitter(std::span<float> picture, const PictureShape& shape, const Normalization& normalization,
            const ColourFactors& factors) {
  check(picture, shape);
  MUSTER_CHECK(shape.channels == 1 || shape.channels == 3, "grey or colour");
  MUSTER_CHECK(normalization.mean.size() == shape.channels, "the normalization of another picture");
  const std::size_t plane = shape.height * shape.width;
  const auto mean = [&](std::size_t c) { return static_cast<double>(normalization.mean[c]); };
  const auto deviation = [&](std::size_t c) { return static_cast<double>(normalization.stddev[c]); };
  const auto grey_weight = [&](std::size_t c) { return shape.channels == 1 ? 1.0 : kGrey[c]; };
  double grey = 0;  // mean of the picture, after brightness
  double grey_of_mean = 0;
  for (std::size_t c = 0; c < shape.channels; ++c) {
    const double value = sum(picture.data() + c * plane, plane) / static_cast<double>(plane);
    grey += factors.brightness * grey_weight(c) * (value * deviation(c) + mean(c));
    grey_of_mean += grey_weight(c) * mean(c);
  }
  // All three steps are linear in the intensities v, so they are one:
  //   v_c becomes saturation * gain * v_c + (1 - saturation) * gain * (grey of v) + (1 - contrast) * grey.
  const double gain = factors.contrast * factors.brightness;
  const double saturation = shape.channels == 1 ? 1 : factors.saturation;
  const auto mix_of = [&](std::size_t c) {
    const double constant =
        saturation * gain * mean(c) + (1 - saturation) * gain * grey_of_mean + (1 - factors.contrast) * grey - mean(c);
    return Mix{.own = static_cast<float>(saturation * gain),
               .shift = static_cast<float>(constant / deviation(c)),
               .low = static_cast<float>(-mean(c) / deviation(c)),
               .high = static_cast<float>((1 - mean(c)) / deviation(c))};
  };
  if (shape.channels == 1) return mix_one(picture.data(), plane, mix_of(0));
  MixThree mix{};
  for (std::size_t c = 0; c < 3; ++c) {
    mix.channel[c] = mix_of(c);
    mix.grey[c] = static_cast<float>(kGrey[c] * deviation(c));
    mix.grey_part[c] = static_cast<float>((1 - saturation) * gain / deviation(c));
  }
  mix_three(picture.data(), picture.data() + plane, picture.data() + 2 * plane, plane, mix);
}

}  // namespace muster::data
