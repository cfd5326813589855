// Resizing with an antialiased bilinear filter, from a decoder's rows straight to a model's floats.
//
// The filter is a triangle of half width max(1, shrink), so shrinking averages over all pixels and enlarging is plain
// bilinear interpolation. Pixels outside the window never take part (weights are normalised over those inside): the
// result is that of cropping first and resizing then. Two passes: each decoded row is resized across and kept only as
// long as the vertical filter needs it, so memory is a few rows whatever the picture's size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/data/pictures/decoder.h"

namespace muster::data {

// The filter along one axis: output i is the sum over k of weights[k * outputs + i] * input[first[i] + k].
struct ResizeAxis {
  std::uint32_t taps = 0;
  std::vector<std::int32_t> first = {};  // not falling
  std::vector<float> weights = {};       // tap by tap
};

// From the real range [begin, end) of an axis to `outputs` points, using only the pixels low .. high-1.
// REQUIRES: begin < end, low < high, outputs > 0, the range within [low, high].
ResizeAxis resize_axis(double begin, double end, std::uint32_t low, std::uint32_t high, std::uint32_t outputs);

// What a picture becomes: planes (channel after channel) of `extent`, the value v of channel c as v * scale[c] +
// shift[c].
struct PictureFormat {
  Extent extent;
  std::vector<float> scale;  // one per channel
  std::vector<float> shift;
};

// Reads `window` of the picture, resized to format.extent. Throws as the decoder.
// REQUIRES: out.size() == channels * extent; the decoder was not started and gives scale.size() channels.
void read_resized(PictureDecoder& decoder, const Window& window, const PictureFormat& format, std::span<float> out);

}  // namespace muster::data
