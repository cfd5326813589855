// A sheet of samples as a PNG file, for people who want to see what a model sees.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "muster/data/dataset.h"
#include "muster/data/images.h"
#include "muster/data/pictures/decoder.h"

namespace muster::data {

struct SheetOptions {
  std::uint64_t samples = 64;  // spread evenly over the data set; fewer if it has fewer
  std::uint32_t columns = 8;
  // 0: each sample once, as evaluation sees it. n: a row for each sample, as evaluation sees it and then as the first n
  // epochs of training do.
  std::uint32_t epochs = 0;
  Normalization normalization = {};  // to be undone; empty: the values of a sample are stretched to black .. white
};

// Draws the sheet. Throws Error{kUnsupported} for samples that are no pictures ({channels, height, width} with 1 or 3
// channels), kInvalidInput for a sheet of more than 2^26 pixels or of no samples, what reading throws, and what writing
// a file does.
void write_picture_sheet(const Dataset& dataset, const std::filesystem::path& path, const SheetOptions& options);

// The bytes of a PNG file: rows of 8-bit pixels, 1 (grey) or 3 channels interleaved.
// REQUIRES: pixels.size() == width * height * channels, both extents positive and below 2^31.
std::string encode_png(const Extent& extent, int channels, std::span<const std::uint8_t> pixels);

}  // namespace muster::data
