// The changes that augmentation makes to one picture, each a plain function of the picture and of numbers that somebody
// else has drawn (augmentation.h): so each can be checked against what it means.
//
// A picture is planes of floats, channel after channel. What comes in from outside it is 0: the mean colour, as
// pictures are normalised before they are augmented. Thread safety: as pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "muster/data/images.h"

namespace muster::data {

struct PictureShape {
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;

  std::size_t elements() const { return channels * height * width; }
};

// REQUIRES of all: picture.size() == shape.elements().

// Left becomes right.
void flip(std::span<float> picture, const PictureShape& shape);

// The pixel at (x, y) becomes the one that was at (x + right, y + down).
void shift(std::span<float> picture, const PictureShape& shape, std::int64_t right, std::int64_t down);

// Turns the content about its middle, clockwise as the picture is seen (rows go down), interpolated bilinearly.
void rotate(std::span<float> picture, const PictureShape& shape, double degrees);

// Clears the part of the square of `side` pixels around (x, y) that is inside: columns x - side/2 to x - side/2 +
// side-1.
void cut_out(std::span<float> picture, const PictureShape& shape, std::int64_t x, std::int64_t y, std::int64_t side);

// 1 changes nothing.
struct ColourFactors {
  double brightness = 1;
  double contrast = 1;
  double saturation = 1;
};

// In intensities 0 .. 1 (before normalisation), v of channel c: times brightness; then its distance from the picture's
// mean grey times contrast; then its distance from its own grey times saturation; kept within 0 .. 1 at the end.
// Saturation is for 3 channels. REQUIRES: 1 or 3 channels, the normalization that was applied.
void jitter(std::span<float> picture, const PictureShape& shape, const Normalization& normalization,
            const ColourFactors& factors);

}  // namespace muster::data
