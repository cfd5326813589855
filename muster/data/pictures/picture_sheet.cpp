// A small PNG encoder of our own, 8 bits and no filter, compressed by zlib: it has no errors to handle by longjmp, as
// libpng has. Samples are drawn evenly spread, because sets are often sorted by class.
#include "muster/data/pictures/picture_sheet.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 26;
constexpr std::uint32_t kGap = 2;  // pixels between samples

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(value >> shift));
}

void append_chunk(std::string& out, const std::string& type, const std::string& content) {
  append_u32(out, static_cast<std::uint32_t>(content.size()));
  const std::string checked = type + content;
  out += checked;
  append_u32(out,
             static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size())));
}

std::string compressed(const std::string& text) {
  uLongf size = ::compressBound(text.size());
  std::string out(size, '\0');
  const int result = ::compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                                 reinterpret_cast<const Bytef*>(text.data()), text.size(), 6);
  MUSTER_CHECK(result == Z_OK, "zlib was given all the room it asked for");
  out.resize(size);
  return out;
}

// Pixels that samples are drawn into, interleaved.
class Sheet {
 public:
  Sheet(const Extent& tile, std::uint32_t columns, std::uint32_t rows, int channels)
      : tile_(tile),
        extent_{columns * (tile.width + kGap) + kGap, rows * (tile.height + kGap) + kGap},
        channels_(static_cast<std::size_t>(channels)),
        pixels_(std::size_t{extent_.width} * extent_.height * channels_, 128) {}

  void draw(std::uint32_t column, std::uint32_t row, std::span<const float> features,
            const Normalization& normalization) {
    const std::size_t left = kGap + std::size_t{column} * (tile_.width + kGap);
    const std::size_t top = kGap + std::size_t{row} * (tile_.height + kGap);
    const std::size_t plane = std::size_t{tile_.width} * tile_.height;
    const auto [low, high] = std::minmax_element(features.begin(), features.end());
    const float stretch = *high > *low ? 255.0F / (*high - *low) : 0.0F;
    for (std::size_t c = 0; c < channels_; ++c) {
      const bool known = !normalization.mean.empty();
      const float scale = known ? 255.0F * normalization.stddev[c] : stretch;
      const float shift = known ? 255.0F * normalization.mean[c] : -*low * stretch;
      for (std::size_t i = 0; i < plane; ++i) {
        const float value = std::clamp(std::round(features[c * plane + i] * scale + shift), 0.0F, 255.0F);
        const std::size_t pixel = (top + i / tile_.width) * extent_.width + left + i % tile_.width;
        pixels_[pixel * channels_ + c] = static_cast<std::uint8_t>(value);
      }
    }
  }

  std::string encoded() const { return encode_png(extent_, static_cast<int>(channels_), pixels_); }

 private:
  Extent tile_;
  Extent extent_;
  std::size_t channels_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

std::string encode_png(const Extent& extent, int channels, std::span<const std::uint8_t> pixels) {
  const std::size_t row = std::size_t{extent.width} * static_cast<std::size_t>(channels);
  MUSTER_CHECK(channels == 1 || channels == 3, "grey or colour");
  MUSTER_CHECK(row > 0 && pixels.size() == row * extent.height, "pixels of another extent");
  std::string header;
  append_u32(header, extent.width);
  append_u32(header, extent.height);
  // 8 bits; grey or red, green, blue; then the only compression, filtering and the plain order of rows.
  for (const int field : {8, channels == 1 ? 0 : 2, 0, 0, 0})
    header.push_back(static_cast<char>(field));
  std::string lines;
  lines.reserve(pixels.size() + extent.height);
  for (std::size_t y = 0; y < extent.height; ++y) {
    lines.push_back('\0');  // this row is not filtered
    lines.append(reinterpret_cast<const char*>(pixels.data() + y * row), row);
  }
  std::string out = "\x89PNG\r\n\x1A\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", compressed(lines));
  append_chunk(out, "IEND", {});
  return out;
}

void write_picture_sheet(const Dataset& dataset, const std::filesystem::path& path, const SheetOptions& options) {
  const SampleSpec& spec = dataset.spec();
  if (spec.shape.size() != 3 || (spec.shape[0] != 1 && spec.shape[0] != 3)) {
    throw Error(ErrorKind::kUnsupported, "these samples are no pictures, so there is no sheet of them", path.string());
  }
  if (!options.normalization.mean.empty()) validate(options.normalization, spec.shape[0]);
  const std::uint64_t samples = std::min(options.samples, dataset.size());
  const std::uint64_t columns = options.epochs > 0 ? std::uint64_t{options.epochs} + 1 : options.columns;
  const std::uint64_t rows = options.epochs > 0 || columns == 0 ? samples : (samples + columns - 1) / columns;
  const auto cell = [&](std::size_t axis) { return static_cast<std::uint64_t>(spec.shape[axis]) + kGap; };
  if (samples == 0 || columns == 0 || columns > kMostPixels / cell(2) || rows > kMostPixels / cell(1) ||
      (columns + 1) * cell(2) > kMostPixels / ((rows + 1) * cell(1))) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("cannot draw a sheet of {} x {} samples of {} x {} pixels", rows, columns, spec.shape[1],
                            spec.shape[2]),
                path.string(), "Ask for fewer samples, or for at least one.");
  }
  const Extent tile{static_cast<std::uint32_t>(spec.shape[2]), static_cast<std::uint32_t>(spec.shape[1])};
  Sheet sheet(tile, static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows),
              static_cast<int>(spec.shape[0]));
  std::vector<float> features(spec.elements());
  for (std::uint64_t i = 0; i < samples; ++i) {
    // Evenly spread: sample sets are often sorted by class.
    const std::uint64_t id = dataset.size() / samples * i + dataset.size() % samples * i / samples;
    dataset.read(id, features);
    if (options.epochs == 0) {
      sheet.draw(static_cast<std::uint32_t>(i % columns), static_cast<std::uint32_t>(i / columns), features,
                 options.normalization);
      continue;
    }
    sheet.draw(0, static_cast<std::uint32_t>(i), features, options.normalization);
    for (std::uint32_t epoch = 0; epoch < options.epochs; ++epoch) {
      dataset.read_in_epoch(id, epoch, features);
      sheet.draw(epoch + 1, static_cast<std::uint32_t>(i), features, options.normalization);
    }
  }
  write_atomically(path, sheet.encoded());
}

}  // namespace muster::data
