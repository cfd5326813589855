// Images: 8-bit images and their labels in memory, as the readers of image files leave them (idx.h,
// cifar10.h), and the per-channel statistics that normalise them.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::data {

// A value. `pixels` holds the images one after the other, each channel by channel, each channel row by row.
struct Images {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t classes = 0;
  std::vector<std::uint8_t> pixels = {};
  std::vector<std::int64_t> labels = {};  // one per image, 0 .. classes-1

  std::uint64_t count() const { return labels.size(); }
};

// Per channel, in units of full intensity (255 is 1): a pixel x becomes (x / 255 - mean) / stddev.
struct Normalization {
  std::vector<float> mean = {};
  std::vector<float> stddev = {};

  bool operator==(const Normalization&) const = default;
};

// Mean and (population) standard deviation of every channel over all images, from exact integer sums, so that
// the result does not depend on the order of anything. A channel without variance gets stddev 1. REQUIRES: at
// least one image.
Normalization measure(const Images& images);

// Throws Error{kInvalidInput} unless the sizes agree, every extent is positive and every label is a class.
void validate(const Images& images);

// Throws Error{kInvalidInput} unless there is one finite mean and one finite positive stddev per channel.
void validate(const Normalization& normalization, std::int64_t channels);

}  // namespace muster::data
