// A pass across each decoded row, then a pass down over the few rows that are kept. Weights are computed once for each
// picture and axis, and the inner loops are written for vector code.
#include "muster/data/pictures/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "muster/base/check.h"
#include "muster/base/kernel.h"

namespace muster::data {
namespace {

// Interleaved bytes to planes of floats, `stride` apart.
template <int channels>
MUSTER_KERNEL_BODY void widen_body(const std::uint8_t* in, std::size_t count, std::size_t stride, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    for (int c = 0; c < channels; ++c)
      out[static_cast<std::size_t>(c) * stride + i] =
          static_cast<float>(in[i * channels + static_cast<std::size_t>(c)]);
  }
}

MUSTER_KERNEL void widen_1(const std::uint8_t* __restrict in, std::size_t count, std::size_t stride,
                           float* __restrict out) {
  widen_body<1>(in, count, stride, out);
}

MUSTER_KERNEL void widen_3(const std::uint8_t* __restrict in, std::size_t count, std::size_t stride,
                           float* __restrict out) {
  widen_body<3>(in, count, stride, out);
}

MUSTER_KERNEL void resize_across(const float* __restrict in, const std::int32_t* __restrict first,
                                 const float* __restrict weights, std::size_t taps, std::size_t outputs,
                                 float* __restrict out) {
  if (taps == 2) {
    for (std::size_t i = 0; i < outputs; ++i)
      out[i] = weights[i] * in[first[i]] + weights[outputs + i] * in[first[i] + 1];
    return;
  }
  for (std::size_t i = 0; i < outputs; ++i)
    out[i] = weights[i] * in[first[i]];
  for (std::size_t k = 1; k < taps; ++k) {
    const float* weight = weights + k * outputs;
    const float* shifted = in + k;
    for (std::size_t i = 0; i < outputs; ++i)
      out[i] += weight[i] * shifted[first[i]];
  }
}

MUSTER_KERNEL void blend_two(const float* __restrict a, const float* __restrict b, float weight_a, float weight_b,
                             float shift, std::size_t count, float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = weight_a * a[i] + weight_b * b[i] + shift;
}

MUSTER_KERNEL void blend_more(const float* __restrict a, float weight, std::size_t count, float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] += weight * a[i];
}

// The rows of the decoder, resized across, the last few of them kept.
class AcrossRows {
 public:
  AcrossRows(PictureDecoder& decoder, const DecodedRegion& region, const ResizeAxis& axis, std::size_t channels,
             std::size_t outputs, std::size_t kept)
      : decoder_(decoder),
        axis_(axis),
        channels_(channels),
        outputs_(outputs),
        kept_(kept),
        skip_(region.wanted.x - region.rows.x),
        width_(region.wanted.width),
        next_(region.rows.y),
        bytes_(region.rows.width * channels),
        planes_(width_ * channels),
        ring_(kept * channels * outputs) {}

  // Row y of the scaled picture: channel after channel. REQUIRES: y not below `kept` rows before the highest so far.
  const float* row(std::uint32_t y) {
    for (; next_ <= y; ++next_)
      read();
    return slot(y);
  }

 private:
  float* slot(std::uint32_t y) { return ring_.data() + y % kept_ * channels_ * outputs_; }

  void read() {
    decoder_.read_row(bytes_);
    const std::uint8_t* in = bytes_.data() + skip_ * channels_;
    if (channels_ == 3) {
      widen_3(in, width_, width_, planes_.data());
    } else {
      widen_1(in, width_, width_, planes_.data());
    }
    for (std::size_t c = 0; c < channels_; ++c) {
      resize_across(planes_.data() + c * width_, axis_.first.data(), axis_.weights.data(), axis_.taps, outputs_,
                    slot(next_) + c * outputs_);
    }
  }

  PictureDecoder& decoder_;
  const ResizeAxis& axis_;
  const std::size_t channels_;
  const std::size_t outputs_;
  const std::size_t kept_;
  const std::size_t skip_;  // columns before the window
  const std::size_t width_;
  std::uint32_t next_;
  std::vector<std::uint8_t> bytes_;
  std::vector<float> planes_;
  std::vector<float> ring_;
};

}  // namespace

ResizeAxis resize_axis(double begin, double end, std::uint32_t low, std::uint32_t high, std::uint32_t outputs) {
  const double shrink = (end - begin) / outputs;
  const double support = std::max(1.0, shrink);
  ResizeAxis axis;
  // A range of 2 * support holds at most so many centres of pixels; taps beyond the window would only weigh zero.
  const auto most = static_cast<std::uint64_t>(std::ceil(2 * support));
  axis.taps = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, high - low));
  axis.first.resize(outputs);
  axis.weights.assign(std::size_t{axis.taps} * outputs, 0.0F);
  std::vector<double> weights(axis.taps);
  for (std::uint32_t i = 0; i < outputs; ++i) {
    const double centre = begin + (i + 0.5) * shrink;
    // The first pixel whose centre is inside the triangle, moved so that every tap is inside the window.
    const double inside = std::floor(centre - support + 0.5);
    const double first = std::clamp(inside, static_cast<double>(low), static_cast<double>(high - axis.taps));
    double sum = 0;
    for (std::uint32_t k = 0; k < axis.taps; ++k) {
      const double distance = std::abs(first + k + 0.5 - centre) / support;
      weights[k] = std::max(0.0, 1 - distance);
      sum += weights[k];
    }
    axis.first[i] = static_cast<std::int32_t>(first);
    for (std::uint32_t k = 0; k < axis.taps; ++k)
      axis.weights[std::size_t{k} * outputs + i] = static_cast<float>(weights[k] / sum);
  }
  return axis;
}

void read_resized(PictureDecoder& decoder, const Window& window, const PictureFormat& format, std::span<float> out) {
  const std::size_t channels = format.scale.size();
  const std::size_t width = format.extent.width;
  const std::size_t height = format.extent.height;
  MUSTER_CHECK(out.size() == channels * width * height, "features of another size than the picture's");
  const Extent full = decoder.extent();
  const DecodedRegion region = decoder.start(window, format.extent);
  const Window& wanted = region.wanted;
  const double x_scale = static_cast<double>(region.scaled.width) / full.width;
  const double y_scale = static_cast<double>(region.scaled.height) / full.height;
  // Columns are counted from the window's left edge, as the planes hold only the window.
  const ResizeAxis across = resize_axis(window.x * x_scale - wanted.x, (window.x + window.width) * x_scale - wanted.x,
                                        0, wanted.width, format.extent.width);
  const ResizeAxis down = resize_axis(window.y * y_scale, (window.y + window.height) * y_scale, wanted.y,
                                      wanted.y + wanted.height, format.extent.height);
  AcrossRows rows(decoder, region, across, channels, width, down.taps);
  for (std::size_t y = 0; y < height; ++y) {
    const auto first = static_cast<std::uint32_t>(down.first[y]);
    rows.row(first + down.taps - 1);
    for (std::size_t c = 0; c < channels; ++c) {
      float* line = out.data() + (c * height + y) * width;
      const auto weight = [&](std::size_t k) { return down.weights[k * height + y] * format.scale[c]; };
      const float* top = rows.row(first) + c * width;
      if (down.taps == 1) {
        blend_two(top, top, weight(0), 0.0F, format.shift[c], width, line);
        continue;
      }
      blend_two(top, rows.row(first + 1) + c * width, weight(0), weight(1), format.shift[c], width, line);
      for (std::uint32_t k = 2; k < down.taps; ++k)
        blend_more(rows.row(first + k) + c * width, weight(k), width, line);
    }
  }
  decoder.finish();
}

}  // namespace muster::data
